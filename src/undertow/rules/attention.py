"""Attention in one step, with its gradients in closed form."""

# fmt: off
from __future__ import annotations

from undertow.rules.rule import op

scaled_dot_product_attention = op("_scaled_dot_product_flash_attention_for_cpu",
    lambda xp, query, key, value, attn_mask, *, dropout_p, is_causal, scale: xp.attention(
        query, key, value, attn_mask, is_causal, scale),
    node="ScaledDotProductFlashAttentionForCpuBackward0", promote="same", accepts="f", hidden=("rows", "weights"),
    joint=lambda xp, g, needs, query, key, value, attn_mask, result, rows, weights, is_causal, scale: (
        *xp.attention_grad(g, query, key, value, attn_mask, result, rows, weights, is_causal, scale), None))
