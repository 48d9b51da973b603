"""Attention in one step, with closed-form gradients; and the softmax of attention composed of steps."""

# fmt: off
from __future__ import annotations

from math import inf as INFINITY

from undertow._src.rules.rule import op

scaled_dot_product_attention = op("_scaled_dot_product_flash_attention_for_cpu",
    lambda xp, query, key, value, attn_mask, *, dropout_p, is_causal, scale: xp.attention(
        query, key, value, attn_mask, is_causal, scale),
    node="ScaledDotProductFlashAttentionForCpuBackward0", promote="same", accepts="f", half=True,
    names=("output",), hidden=("rows", "weights"),
    slots=3,
    joint=lambda xp, g, needs, query, key, value, attn_mask, output, rows, weights, is_causal, scale: xp.attention_grad(
        g, query, key, value, attn_mask, output, rows, weights, is_causal, scale))

# Zero, not nan, in rows whose scores are all −∞.
safe_softmax = op("_safe_softmax", lambda xp, self, *, dim: xp.where(
                      xp.max(self, axis=dim, keepdims=True) == -INFINITY, xp.zeros_like(self), xp.softmax(self, dim)),
                  node="SafeSoftmaxBackward0", promote="same", accepts="f",
                  self=lambda xp, g, result, dim: xp.softmax_grad(g, result, dim))
