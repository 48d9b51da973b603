"""Batch norm's gradient on JAX. The other norms are the expressions of composed.py, which XLA fuses well."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

Array = Any
Needs = tuple[bool, ...]


def _per_channel(values: Array, ndim: int) -> Array:
    return values.reshape((1, -1) + (1,) * (ndim - 2))


def batch_norm_grad(
    g: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, training: bool, needs: Needs, eps: float
) -> tuple[Array | None, Array | None, Array | None]:
    """Return the gradients of x, weight and bias, from two sums per channel: of g, and of g times the centred x."""
    axes = (0, *range(2, x.ndim))
    count = max(1, x.size // max(1, x.shape[1]))
    centred = x - _per_channel(mean, x.ndim)
    total, lean = jnp.sum(g, axes), jnp.sum(g * centred, axes)
    grad = None
    if needs[0]:
        factor = rstd if weight is None else rstd * weight
        grad = g
        if training:
            tilt = lean * rstd * rstd / count
            grad = g - _per_channel(total / count, x.ndim) - centred * _per_channel(tilt, x.ndim)
        grad = grad * _per_channel(factor, x.ndim)
    return grad, lean * rstd if needs[1] else None, total if needs[2] else None
