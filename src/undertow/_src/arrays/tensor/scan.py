"""The scans and orderings of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded."""

from __future__ import annotations

from typing import Any

from undertow._src.engine.apply import apply
from undertow._src.rules import scan, sort as ordering
from undertow._src.arrays.tensor.shape import flip, pad


cumsum = lambda x, axis, dtype=None: apply(scan.cumsum, x, dim=axis, dtype=dtype)
cumprod = lambda x, axis: apply(scan.cumprod, x, dim=axis)
recurrence = lambda x, factor, axis: apply(scan.recurrence, x, factor, dim=axis)


def prod_of_others(x: Any, axis: int, product: Any = None) -> Any:
    """Return the product of all elements before each, times that of all after it."""
    if not x._array.ndim:
        return x * 0 + 1
    shift = tuple([(1, -1) if each == axis else (0, 0) for each in range(x._array.ndim)])
    before = cumprod(pad(x, shift, 1), axis)
    return before * flip(cumprod(pad(flip(x, (axis,)), shift, 1), axis), (axis,))


cummax = lambda x, axis: apply(scan.cummax, x, dim=axis)
cummin = lambda x, axis: apply(scan.cummin, x, dim=axis)
logcumsumexp = lambda x, axis: apply(scan.logcumsumexp, x, dim=axis)


def sort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    return apply(ordering.sort_stable, x, stable=stable, dim=axis, descending=descending)


topk = lambda x, k, axis, largest: apply(ordering.topk, x, k=k, dim=axis, largest=largest, sorted=True)
kthvalue = lambda x, k, axis, keepdims: apply(ordering.kthvalue, x, k=k, dim=axis, keepdim=keepdims)
median = lambda x, axis, keepdims: apply(ordering.median, x, dim=axis, keepdim=keepdims)
nanmedian = lambda x, axis, keepdims: apply(ordering.nanmedian, x, dim=axis, keepdim=keepdims)
mode = lambda x, axis, keepdims: apply(ordering.mode, x, dim=axis, keepdim=keepdims)
unique = lambda x, axis=None: apply(ordering.unique, x) if axis is None else apply(ordering.unique_dim, x, dim=axis)
unique_consecutive = lambda x, axis=None: apply(ordering.unique_consecutive, x, dim=axis)
bincount = lambda x, weights, minlength: apply(ordering.bincount, x, weights, minlength=minlength)
histc = lambda x, bins, low, high: apply(ordering.histc, x, bins=bins, min=low, max=high)
histogram = lambda x, edges, weight, density: apply(ordering.histogram, x, edges, weight, density=density)


def searchsorted(edges: Any, x: Any, sorter: Any, right: bool, dtype: Any) -> Any:
    return apply(ordering.searchsorted, edges, x, sorter, right=right, dtype=dtype)
