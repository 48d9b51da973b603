"""Reductions on NumPy, with PyTorch's result dtypes and accumulation.

Integers and bools sum in int64, float16 and bfloat16 in float32. Large float sums are products with a vector of ones:
BLAS adds several rows at once where NumPy's loop pays for each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.arrays.numpy import rows as numpy_rows

Array = np.ndarray[Any, np.dtype[Any]]
Axes = tuple[int, ...] | int | None

# Positional arguments save half a microsecond; NumPy's stubs only know the keywords.
_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce
_or: Any = np.logical_or.reduce
_and: Any = np.logical_and.reduce
_FAST = frozenset({np.dtype("f4"), np.dtype("f8")})
_ONES = {dtype: np.ones(4096, dtype) for dtype in _FAST}
_SMALL = 2048  # elements up to which NumPy's own loop is as fast
_SHORT = 16  # rows up to which a product with ones has nothing to gain


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which values of a dtype are summed or multiplied."""
    return np.dtype(np.int64) if dtype.kind in "biu" else DTYPE_OF[dtype].opmath.numpy


def result_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum of values of a dtype, unless one is given."""
    return np.dtype(np.int64) if dtype.kind in "biu" else dtype


def axes_of(axis: Axes, ndim: int) -> tuple[int, ...]:
    """Return axes counted from the front, in order."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted([each % ndim for each in (axis if isinstance(axis, tuple) else (axis,))])) if ndim else ()


def in_rows(result: Any) -> Any:
    """Return a reduction's result in row-major order, whatever the order of its input."""
    if type(result) is np.ndarray and result.ndim > 1 and not result.flags.c_contiguous:
        return np.ascontiguousarray(result)
    return result


def sum(x: Array, axis: Axes = None, keepdims: bool = False, dtype: Any = None) -> Any:
    given = x.dtype
    if given in _FAST and (dtype is None or dtype is given):
        if x.size <= _SMALL or not x.ndim:
            total = _add(x, axis if x.ndim else None, None, None, keepdims)
            return total if x.ndim < 3 else in_rows(total)
        return _sum_large(x, axis, keepdims)
    if dtype is None:
        dtype = result_dtype(given)
    elif given.kind == "c" and dtype.kind != "c":
        x = x.real
    exact = np.dtype(np.int64) if dtype.kind in "iu" else accumulator(dtype)
    if dtype.kind == "b":
        return in_rows(_or(x, axis if x.ndim else None, keepdims=keepdims))
    if given.kind not in "biu" and dtype.kind in "iu":
        x = x.astype(dtype)
    return in_rows(np.asarray(_add(x, axis if x.ndim else None, exact, None, keepdims)).astype(dtype, copy=False))


def _sum_large(x: Array, axis: Axes, keepdims: bool) -> Any:
    """Return a float32 or float64 sum by BLAS, if the strides allow a view as a matrix."""
    ndim = x.ndim
    axes = axes_of(axis, ndim)
    count = len(axes)
    if not x.flags.c_contiguous or not count:
        return in_rows(_add(x, axis, None, None, keepdims))
    if count == ndim:
        total = _sum_flat(x.reshape(-1))
        return np.full((1,) * ndim, total) if keepdims else total
    if axes[-1] == ndim - 1 and axes[0] == ndim - count:  # trailing axes: rows
        rows = x.reshape(math.prod(x.shape[: ndim - count]), -1)
        width = rows.shape[1]
        if width < _SHORT:
            return _add(x, axis, None, None, keepdims)
        if width > 4096:
            result = numpy_rows.row_sums(rows)
        else:
            result = rows @ _ONES[x.dtype][:width]
    elif axes[-1] == count - 1:  # leading axes: columns
        height = math.prod(x.shape[:count])
        if height < _SHORT:
            return _add(x, axis, None, None, keepdims)
        ones = _ONES[x.dtype][:height] if height <= 4096 else np.ones(height, x.dtype)
        result = ones @ x.reshape(height, -1)
    else:
        return _add(x, axis, None, None, keepdims)
    if keepdims:
        return result.reshape([1 if a in axes else n for a, n in enumerate(x.shape)])
    return result.reshape([n for a, n in enumerate(x.shape) if a not in axes])


def _sum_flat(flat: Array) -> Any:
    rows = flat.size // _SMALL
    whole = rows * _SMALL
    total = _add(flat[:whole].reshape(rows, _SMALL) @ _ONES[flat.dtype][:_SMALL])
    return total if whole == flat.size else total + _add(flat[whole:])


def mean(x: Array, axis: Axes = None, keepdims: bool = False, dtype: Any = None) -> Any:
    given = x.dtype
    count = x.size if axis is None else math.prod([x.shape[each] for each in axes_of(axis, x.ndim)])
    if given in _FAST and (dtype is None or dtype is given):
        total = sum(x, axis, keepdims)
        return total / count if count else np.full(np.shape(total), np.nan, given)
    dtype = given if dtype is None else dtype
    total = sum(x, axis, keepdims, accumulator(dtype))
    if not count:
        return np.full(np.shape(total), np.nan, dtype)
    return np.asarray(total / accumulator(dtype).type(count)).astype(dtype, copy=False)


def prod(x: Array, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    if dtype is None:
        dtype = result_dtype(x.dtype)
    exact = accumulator(dtype) if dtype.kind not in "biu" else np.dtype(np.int64)
    return in_rows(np.asarray(_multiply(x, axis if x.ndim else None, exact, None, keepdims)).astype(dtype, copy=False))


def prod_of_others(x: Array, axis: int, product: Array) -> Array:
    """Return for each element the product of all others along the axis; exact even with zeros."""
    if not x.ndim:
        return np.ones_like(x)
    if x.all():
        return product / x
    before, after = np.ones_like(x), np.ones_like(x)
    moved = np.moveaxis(x, axis, 0)
    np.multiply.accumulate(moved[:-1], 0, out=np.moveaxis(before, axis, 0)[1:])
    np.multiply.accumulate(moved[:0:-1], 0, out=np.moveaxis(after, axis, 0)[-2::-1])
    return before * after


def max(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    if axis is not None and x.ndim > 1 and x.size > _SMALL and axes_of(axis, x.ndim) == (x.ndim - 1,):
        result = numpy_rows.max_along(x, -1)
        return result if keepdims else result.reshape(x.shape[:-1])
    return in_rows(_maximum(x, axis if x.ndim else None, None, None, keepdims))


def min(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    return in_rows(_minimum(x, axis if x.ndim else None, None, None, keepdims))


def any(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    return _truth(in_rows(_or(x, axis if x.ndim else None, keepdims=keepdims)), x)


def all(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    return _truth(in_rows(_and(x, axis if x.ndim else None, keepdims=keepdims)), x)


def _truth(result: Any, x: Array) -> Any:
    return np.asarray(result).astype(np.uint8) if x.dtype == np.uint8 else result


def argmax(x: Array, axis: int | None = None, keepdims: bool = False) -> Any:
    return np.argmax(x, axis=axis if x.ndim else None, keepdims=keepdims)


def argmin(x: Array, axis: int | None = None, keepdims: bool = False) -> Any:
    return np.argmin(x, axis=axis if x.ndim else None, keepdims=keepdims)


def max_with_index(x: Array, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """Return the maximum along an axis and its index; nan counts as largest."""
    return _with_index(x, np.argmax, _maximum, axis, keepdims)


def min_with_index(x: Array, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """Return the minimum along an axis and its index; nan counts as smallest."""
    return _with_index(x, np.argmin, _minimum, axis, keepdims)


def _with_index(x: Array, choose: Any, extreme: Any, axis: int, keepdims: bool) -> tuple[Any, Any]:
    if not x.ndim:
        return np.array(x), np.zeros((), np.int64)
    if x.size <= _SMALL:  # a second pass over the elements costs less than fetching them by index
        return in_rows(extreme(x, axis, None, None, keepdims)), choose(x, axis, None, keepdims=keepdims)
    values, places = take_along(x, choose(x, axis, None, keepdims=True), axis, keepdims)
    return in_rows(values), places


def take_along(x: Array, indices: Array, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """Return x's values at one index per row along the axis, with the indices."""
    values = np.take_along_axis(x, indices, axis)
    if keepdims:
        return values, indices
    return values.squeeze(axis), indices.squeeze(axis)


def abs_squared(x: Array) -> Array:
    """|x|², real also for complex x."""
    return x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x


def sum_of_squares(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return Σ |x|²: dot products of rows where the strides allow it."""
    if x.dtype not in _FAST or x.size <= _SMALL or not x.flags.c_contiguous:
        return sum(abs_squared(x), axis, keepdims)
    axes, ndim = axes_of(axis, x.ndim), x.ndim
    if len(axes) == ndim:
        whole = x.size // _SMALL * _SMALL
        flat = x.reshape(-1)
        rows, rest = flat[:whole].reshape(-1, _SMALL), flat[whole:]
        total = _add(np.vecdot(rows, rows)) + rest.dot(rest)
        return np.full((1,) * ndim, total) if keepdims else total
    if axes == (ndim - 1,):
        result = np.vecdot(x, x)
        return result[..., None] if keepdims else result
    return sum(x * x, axis, keepdims)


sgn = np.sign  # x / |x|, for complex x too
