"""Reductions on JAX, with PyTorch's result dtypes: integers and bools sum in int64, half precision in float32."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.numpy import distances
from undertow._src.arrays.numpy.reduce import accumulator, axes_of, result_dtype

Array = Any
Axes = tuple[int, ...] | int | None


def _axis(x: Array, axis: Any) -> Any:
    return axis if x.ndim else None


def sum(x: Array, axis: Axes = None, keepdims: bool = False, dtype: Any = None) -> Array:
    dtype = result_dtype(x.dtype) if dtype is None else np.dtype(dtype)
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b":
        return jnp.any(x, _axis(x, axis), keepdims=keepdims)
    if x.dtype.kind not in "biu" and dtype.kind in "iu":
        x = x.astype(dtype)
    exact = np.dtype(np.int64) if dtype.kind in "iu" else accumulator(dtype)
    return jnp.sum(x, _axis(x, axis), dtype=exact, keepdims=keepdims).astype(dtype)


def mean(x: Array, axis: Axes = None, keepdims: bool = False, dtype: Any = None) -> Array:
    dtype = x.dtype if dtype is None else np.dtype(dtype)
    count = math.prod([x.shape[each] for each in axes_of(axis, x.ndim)])
    total = sum(x, axis, keepdims, accumulator(dtype))
    return (total / count if count else jnp.full_like(total, math.nan)).astype(dtype)


def prod(x: Array, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Array:
    dtype = result_dtype(x.dtype) if dtype is None else np.dtype(dtype)
    exact = accumulator(dtype) if dtype.kind not in "biu" else np.dtype(np.int64)
    return jnp.prod(x, _axis(x, axis), dtype=exact, keepdims=keepdims).astype(dtype)


def prod_of_others(x: Array, axis: int, product: Array) -> Array:
    """Return for each element the product of all before it, times that of all after it."""
    if not x.ndim:
        return jnp.ones_like(x)
    shift = [(1, -1, 0) if each == axis % x.ndim else (0, 0, 0) for each in range(x.ndim)]
    back = [(-1, 1, 0) if each == axis % x.ndim else (0, 0, 0) for each in range(x.ndim)]
    one = jnp.ones((), x.dtype)
    before = lax.cumprod(lax.pad(x, one, shift), axis % x.ndim)
    return before * lax.cumprod(lax.pad(x, one, back), axis % x.ndim, reverse=True)


max = lambda x, axis=None, keepdims=False: jnp.max(x, _axis(x, axis), keepdims=keepdims)
min = lambda x, axis=None, keepdims=False: jnp.min(x, _axis(x, axis), keepdims=keepdims)
any = lambda x, axis=None, keepdims=False: _truth(jnp.any(x, _axis(x, axis), keepdims=keepdims), x)
all = lambda x, axis=None, keepdims=False: _truth(jnp.all(x, _axis(x, axis), keepdims=keepdims), x)


def _truth(result: Array, x: Array) -> Array:
    return result.astype(np.uint8) if x.dtype == np.uint8 else result


argmax = lambda x, axis=None, keepdims=False: _argument(lax.argmax, x, axis, keepdims)
argmin = lambda x, axis=None, keepdims=False: _argument(lax.argmin, x, axis, keepdims)


def _argument(choose: Any, x: Array, axis: int | None, keepdims: bool) -> Array:
    """Return the index of the extreme, computed in int32: XLA carries the index along with each value."""
    if not x.ndim:
        return jnp.zeros((), np.int64)
    if axis is None:
        found = choose(x.reshape(-1), 0, np.int32)
        return (found.reshape((1,) * x.ndim) if keepdims else found).astype(np.int64)
    axis %= x.ndim
    found = choose(x, axis, np.int32).astype(np.int64)
    return jnp.expand_dims(found, axis) if keepdims else found


def max_with_index(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the maximum along an axis and its index; nan counts as largest."""
    return max(x, axis, keepdims), argmax(x, axis, keepdims)


def min_with_index(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the minimum along an axis and its index; nan counts as smallest."""
    return min(x, axis, keepdims), argmin(x, axis, keepdims)


def abs_squared(x: Array) -> Array:
    """|x|², real also for complex x."""
    return x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x


def sum_of_squares(x: Array, axis: Axes = None, keepdims: bool = False) -> Array:
    """Σ |x|²."""
    return sum(abs_squared(x), axis, keepdims)


sgn = jnp.sign  # x / |x|, for complex x too


def pair_distances(x1: Array, x2: Array, p: float) -> Array:
    """Return the p-norm of every row of x1 minus every row of x2; for many rows the Euclidean one by a matrix product."""
    if p == 2 and distances.are_many(x1, x2):
        squares = (x1 * x1).sum(-1)[..., :, None] + (x2 * x2).sum(-1)[..., None, :]
        return jnp.sqrt(jnp.maximum(squares - 2 * (x1 @ jnp.swapaxes(x2, -2, -1)), 0))
    apart = jnp.abs(x1[..., :, None, :] - x2[..., None, :, :])
    if p == 2:
        return jnp.sqrt((apart * apart).sum(-1))
    if p == 1:
        return apart.sum(-1)
    if p == math.inf:
        return jnp.max(apart, -1, initial=0)
    if p == 0:
        return (apart != 0).sum(-1).astype(apart.dtype)
    return (apart**p).sum(-1) ** (1.0 / p)


def pair_distances_grad(g: Array, x1: Array, x2: Array, result: Array, p: float) -> tuple[Array, Array]:
    return distances.pair_distances_grad(g, x1, x2, result, p, jnp)
