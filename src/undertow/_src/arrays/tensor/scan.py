"""The scans and orderings of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded."""

from __future__ import annotations

from typing import Any

from undertow._src.engine.apply import apply
from undertow._src.rules import scan, sort as ordering
from undertow._src.arrays.tensor.shape import flip, pad


def cumsum(x: Any, axis: int, dtype: Any = None) -> Any:
    return apply(scan.cumsum, x, dim=axis, dtype=dtype)


def cumprod(x: Any, axis: int) -> Any:
    return apply(scan.cumprod, x, dim=axis)


def recurrence(x: Any, factor: Any, axis: int) -> Any:
    return apply(scan.recurrence, x, factor, dim=axis)


def prod_of_others(x: Any, axis: int, product: Any = None) -> Any:
    """Return the product of all elements before each, times that of all after it."""
    if not x._array.ndim:
        return x * 0 + 1
    shift = tuple([(1, -1) if each == axis else (0, 0) for each in range(x._array.ndim)])
    before = cumprod(pad(x, shift, 1), axis)
    return before * flip(cumprod(pad(flip(x, (axis,)), shift, 1), axis), (axis,))


def cummax(x: Any, axis: int) -> Any:
    return apply(scan.cummax, x, dim=axis)


def cummin(x: Any, axis: int) -> Any:
    return apply(scan.cummin, x, dim=axis)


def logcumsumexp(x: Any, axis: int) -> Any:
    return apply(scan.logcumsumexp, x, dim=axis)


def sort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    return apply(ordering.sort_stable, x, stable=stable, dim=axis, descending=descending)


def topk(x: Any, k: int, axis: int, largest: bool) -> Any:
    return apply(ordering.topk, x, k=k, dim=axis, largest=largest, sorted=True)


def kthvalue(x: Any, k: int, axis: int, keepdims: bool) -> Any:
    return apply(ordering.kthvalue, x, k=k, dim=axis, keepdim=keepdims)


def median(x: Any, axis: int, keepdims: bool) -> Any:
    return apply(ordering.median, x, dim=axis, keepdim=keepdims)


def nanmedian(x: Any, axis: int, keepdims: bool) -> Any:
    return apply(ordering.nanmedian, x, dim=axis, keepdim=keepdims)


def mode(x: Any, axis: int, keepdims: bool) -> Any:
    return apply(ordering.mode, x, dim=axis, keepdim=keepdims)


def unique(x: Any, axis: int | None = None) -> Any:
    return apply(ordering.unique, x) if axis is None else apply(ordering.unique_dim, x, dim=axis)


def unique_consecutive(x: Any, axis: int | None = None) -> Any:
    return apply(ordering.unique_consecutive, x, dim=axis)


def bincount(x: Any, weights: Any, minlength: int) -> Any:
    return apply(ordering.bincount, x, weights, minlength=minlength)


def histc(x: Any, bins: int, low: float, high: float) -> Any:
    return apply(ordering.histc, x, bins=bins, min=low, max=high)


def histogram(x: Any, edges: Any, weight: Any, density: bool) -> Any:
    return apply(ordering.histogram, x, edges, weight, density=density)


def searchsorted(edges: Any, x: Any, sorter: Any, right: bool, dtype: Any) -> Any:
    return apply(ordering.searchsorted, edges, x, sorter, right=right, dtype=dtype)
