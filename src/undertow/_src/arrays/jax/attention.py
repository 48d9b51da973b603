"""Attention on JAX: cuDNN's fused kernel on GPUs where it applies, else the expression of composed.py, which XLA fuses."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays import composed
from undertow._src.arrays.jax.tracing import platform_of

Array = Any

_HALF = ("float16", "bfloat16")


def is_fused(q: Array, k: Array, v: Array, mask: Array | None) -> bool:
    """Whether cuDNN's kernel supports these: half precision, heads of up to 128 channels in steps of 8, no mask."""
    return (
        platform_of(q) == "gpu"
        and mask is None
        and q.dtype.name in _HALF
        and q.dtype == k.dtype == v.dtype
        and q.shape[3] == k.shape[3] == v.shape[3]
        and q.shape[3] % 8 == 0
        and q.shape[3] <= 128
        and q.shape[1] % k.shape[1] == 0
        and q.shape[2] > 1
    )


def _fused(q: Array, k: Array, v: Array, causal: bool, scale: float) -> Array:
    """Return cuDNN's attention, whose axes are (batch, position, head, channel)."""
    out = jax.nn.dot_product_attention(
        *[jnp.swapaxes(x, 1, 2) for x in (q, k, v)], scale=scale, is_causal=causal, implementation="cudnn"
    )
    return jnp.swapaxes(out, 1, 2)


def fused(q: Array, k: Array, v: Array, causal: bool, scale: float) -> tuple[Array, Any]:
    """Return the result, and its gradients as a function of the result's.

    Forward and backward each trace this. XLA sees two equal kernels and runs one: the result is always computed in the
    way that keeps what the gradient needs, even where no gradient follows.
    """
    return jax.vjp(partial(_fused, causal=causal, scale=scale), q, k, v)


def _once(x: Array) -> Array:
    """Compute once and keep the value: on the CPU XLA would recompute it for each product that reads it."""
    return lax.optimization_barrier(x) if platform_of(x) == "cpu" else x


def _weights(xp: Any, q: Array, k: Array, mask: Array | None, causal: bool, scale: float) -> Array:
    """Return composed.attention_weights, without the handling of fully masked rows where there is no mask."""
    if mask is not None:
        return _once(composed.attention_weights(xp, q, k, mask, causal, scale))
    scores = xp.matmul(q * scale, jnp.swapaxes(k, 2, 3))
    if causal:
        row, column = [lax.broadcasted_iota(np.int32, scores.shape[2:], axis) for axis in (0, 1)]
        scores = jnp.where(row >= column, scores, -math.inf)
    exponentials = jnp.exp(scores - jnp.max(scores, 3, keepdims=True))
    return _once(exponentials / jnp.sum(exponentials, 3, keepdims=True))


def attention(
    xp: Any, q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float
) -> tuple[Array, Array, Array]:
    """Return the result, and for the gradient nothing and the weights (or nothing)."""
    nothing = jnp.zeros((), q.dtype)
    if is_fused(q, k, v, mask):
        return fused(q, k, v, causal, scale)[0], nothing, nothing
    if q.dtype.name in _HALF:
        wide_q, wide_k, wide_v = [x.astype(np.float32) for x in (q, k, v)]
        out, _, weights = attention(xp, wide_q, wide_k, wide_v, mask, causal, scale)
        return out.astype(q.dtype), nothing, weights
    weights = _weights(xp, q, composed.repeated(xp, k, q), mask, causal, scale)
    return xp.matmul(weights, composed.repeated(xp, v, q)), nothing, weights


def attention_grad(
    xp: Any, g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, rows: Array, weights: Array,
    causal: bool, scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the gradients of q, k and v."""
    if is_fused(q, k, v, mask):
        return fused(q, k, v, causal, scale)[1](g)
    if q.dtype.name in _HALF:
        wide_g, wide_q, wide_k, wide_v, wide_out = [x.astype(np.float32) for x in (g, q, k, v, out)]
        grads = composed.attention_grad_from(xp, weights, wide_g, wide_q, wide_k, wide_v, wide_out, scale)
        return grads[0].astype(q.dtype), grads[1].astype(q.dtype), grads[2].astype(q.dtype)
    return composed.attention_grad_from(xp, weights, g, q, k, v, out, scale)
