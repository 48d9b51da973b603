"""Products of matrices on JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

Array = Any


def matmul(x: Array, y: Array) -> Array:
    """The matrix product; a stack of matrices times one matrix is a single tall product."""
    if x.ndim > 2 and y.ndim == 2:
        return jnp.matmul(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[-1])
    return jnp.matmul(x, y)


def addmm(bias: Array, x: Array, y: Array, beta: Any, alpha: Any) -> Array:
    """beta bias + alpha x @ y; a bias of weight 0 is not looked at."""
    out = matmul(x, y)
    if alpha != 1:
        out = out * alpha
    if beta == 0:
        return out
    return out + (bias if beta == 1 else bias * beta)


def cross(x: Array, y: Array, axis: int) -> Array:
    """The vector product along an axis of length 3."""
    x, y = jnp.broadcast_arrays(x, y)
    (a, b, c), (d, e, f) = jnp.moveaxis(x, axis, 0), jnp.moveaxis(y, axis, 0)
    return jnp.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis)


def eye(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Ones on the diagonal of a matrix of this shape."""
    return np.eye(*shape[-2:], dtype=dtype)
