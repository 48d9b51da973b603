"""Running reductions along an axis, with PyTorch's accumulation: float32 runs in float64 and every step is rounded once."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from undertow._src.arrays.quiet import quiet

Array = np.ndarray[Any, np.dtype[Any]]

_WIDE = 128  # inner elements from which stepping along an axis beats a separate run for each of them


def _accumulator(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a running sum: int64 for integers, and the wide type of each kind of float."""
    if dtype.kind in "biu":
        return np.dtype(np.int64)
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _result(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.int64) if dtype.kind in "biu" else dtype


@quiet
def _accumulate(operation: np.ufunc, x: Array, axis: int) -> Array:
    wide = np.array(x, _accumulator(x.dtype), order="C")
    if x.ndim and x.size >= _WIDE * x.shape[axis] and math.prod(x.shape[axis + 1 :]) >= 16:
        steps = np.moveaxis(wide, axis, 0)
        for before, here in itertools.pairwise(steps):
            operation(here, before, out=here)
    elif x.ndim:
        operation.accumulate(wide, axis, out=wide)
    return np.asarray(wide, _result(x.dtype))


def cumsum(x: Array, axis: int, dtype: np.dtype | None = None) -> Array:
    """y[i] = Σ x[j], j ≤ i; the adjoint is the cumsum of the reversed array, reversed. Integers give int64."""
    if dtype is None:
        return _accumulate(np.add, x, axis)
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    return _accumulate(np.add, x.astype(dtype, copy=False), axis).astype(dtype, copy=False)


def cumprod(x: Array, axis: int) -> Array:
    """y[i] = Π x[j], j ≤ i. Integers give int64."""
    return _accumulate(np.multiply, x, axis)


@quiet
def logcumsumexp(x: Array, axis: int) -> Array:
    """y[i] = log Σ e^x[j], j ≤ i."""
    if not x.ndim:
        return np.array(x)
    if x.dtype.kind == "c":
        top = x.real.max(axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0)
        return (np.log(np.cumsum(np.exp(x - top), axis)) + top).astype(x.dtype)
    return np.logaddexp.accumulate(x.astype(np.float64), axis).astype(x.dtype, order="C")


def cummax(x: Array, axis: int) -> tuple[Array, Array]:
    """Return the running maximum and the index of its latest occurrence; nan is larger than all."""
    return _running_extreme(np.maximum, x, axis)


def cummin(x: Array, axis: int) -> tuple[Array, Array]:
    """Return the running minimum and the index of its latest occurrence; nan is smaller than all."""
    return _running_extreme(np.minimum, x, axis)


def _running_extreme(extreme: np.ufunc, x: Array, axis: int) -> tuple[Array, Array]:
    if not x.ndim:
        return np.array(x), np.zeros((), np.int64)
    values = np.ascontiguousarray(extreme.accumulate(x, axis))
    hit = x == values
    if x.dtype.kind not in "biu":
        hit |= np.isnan(x)
    shape = [1] * x.ndim
    shape[axis] = -1
    places = np.where(hit, np.arange(x.shape[axis]).reshape(shape), 0)
    return values, np.ascontiguousarray(np.maximum.accumulate(places, axis))


def recurrence(x: Array, factor: Array, axis: int) -> Array:
    """y[i] = x[i] + factor[i] y[i-1] along an axis."""
    if not x.ndim:
        return np.array(x)
    steps = np.array(np.moveaxis(x, axis, 0), order="C")
    factors = np.ascontiguousarray(np.moveaxis(factor, axis, 0))
    for place in range(1, len(steps)):
        steps[place] += factors[place] * steps[place - 1]
    return np.ascontiguousarray(np.moveaxis(steps, 0, axis))
