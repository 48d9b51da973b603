"""Sorting and selection by rank on NumPy.

nan is larger than every number, as in PyTorch; ties keep their order, except in a sort that need not be stable (NOTE
ties, in introsort.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.arrays.numpy.introsort import MOST, SHORT, with_ties_swapped
from undertow._src.arrays.numpy.order import ordered
from undertow._src.arrays.numpy.reduce import in_rows, take_along
from undertow._src.arrays.numpy.scatter import unique, unique_consecutive

Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["bincount", "histc", "histogram", "kthvalue", "median", "mode", "nanmedian", "searchsorted", "sort", "topk",
           "unique", "unique_consecutive"]  # fmt: skip


def _keys(x: Array) -> Array:
    """Return the values to compare: bfloat16 has no sort in NumPy."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Return the indices that sort x along an axis."""
    keys = _keys(x)
    if not descending:
        return np.argsort(keys, axis, kind="stable")
    # Sorting the reversed array and reversing the result keeps ties in order and puts nan first.
    order = np.argsort(np.flip(keys, axis), axis, kind="stable")
    return np.ascontiguousarray(np.flip(x.shape[axis] - 1 - order, axis))


def _swapped(order: Array, x: Array, axis: int, first: int | None = None) -> Array:
    rows, keys = (np.moveaxis(each, axis, -1) for each in (order, _keys(x)))
    found = with_ties_swapped(rows.reshape(-1, rows.shape[-1]), keys.reshape(-1, rows.shape[-1]), first)
    return np.ascontiguousarray(np.moveaxis(found.reshape(*rows.shape[:-1], found.shape[-1]), -1, axis))


def sort(x: Array, axis: int, descending: bool, stable: bool) -> tuple[Any, Any]:
    if not x.ndim:
        return np.array(x), np.zeros((), np.int64)
    order = _order(x, axis, descending)
    if not stable and SHORT < x.shape[axis] <= MOST:
        order = _swapped(order, x, axis)
    values = np.take_along_axis(x, order, axis)
    return (values, order) if x.flags.c_contiguous else (ordered(values, [x]), ordered(order, [x]))


def topk(x: Array, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """Return the k largest (or smallest) along an axis, best first."""
    if not x.ndim:
        return np.array(x), np.zeros((), np.int64)
    n = x.shape[axis]
    sorts = n < 64 or k > n // 4 or k == 0
    exact = 0 < k and n < 64 * k and n <= MOST  # also about the order of equal elements
    chosen = None if sorts else _beyond(x, k, axis, largest)
    if chosen is not None:
        found, places = _best_first(x, chosen, axis, largest)
        if not exact or not (np.diff(_keys(found), axis=axis) == 0).any():
            return found, places
    if exact:
        order = _swapped(_order(x, axis, largest), x, axis, k)
        return np.take_along_axis(x, order, axis), order
    if sorts:
        order = _order(x, axis, largest)[(slice(None),) * axis + (slice(k),)]
        return np.take_along_axis(x, order, axis), np.ascontiguousarray(order)
    split = np.argpartition(_keys(x), n - k if largest else k - 1, axis)
    chosen = np.sort(split[(slice(None),) * axis + (slice(n - k, None) if largest else slice(k),)], axis)
    return _best_first(x, chosen, axis, largest)


def _best_first(x: Array, chosen: Array, axis: int, largest: bool) -> tuple[Any, Any]:
    """Return the elements at given positions, and the positions, in order."""
    few = np.take_along_axis(x, chosen, axis)
    order = _order(few, axis, largest)
    return np.take_along_axis(few, order, axis), np.take_along_axis(chosen, order, axis)


# NOTE values before positions: NumPy finds the value of a rank ten times faster than its position. The position is
# where that value is, unless it occurs several times, or is nan.


def _value_of_rank(x: Array, rank: int, axis: int) -> Array:
    return np.partition(x, rank, axis)[(slice(None),) * axis + (slice(rank, rank + 1),)]


def _beyond(x: Array, k: int, axis: int, largest: bool) -> Array | None:
    """Return the positions of the k largest (or smallest), in ascending order; None if ties or nan leave them open."""
    keys = _keys(x)
    bound = _value_of_rank(keys, x.shape[axis] - k if largest else k - 1, axis)
    among = keys >= bound if largest else keys <= bound
    if np.count_nonzero(among) != k * bound.size or (keys != keys).any():
        return None
    rows = np.ascontiguousarray(np.moveaxis(among, axis, -1))
    places = np.flatnonzero(rows) % x.shape[axis]
    return np.moveaxis(places.reshape(*rows.shape[:-1], k), -1, axis)


def _place_of_rank(x: Array, rank: int, axis: int) -> Array | None:
    """Return the position of the element of a rank; None if ties or nan leave that open."""
    keys = _keys(x)
    value = _value_of_rank(keys, rank, axis)
    there = keys == value
    if np.count_nonzero(there) != value.size or (value != value).any():
        return None
    return np.argmax(there, axis, keepdims=True)


def _pick(x: Array, rank: Any, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """Return the element of a rank (one number, or an array with the axis kept)."""
    if np.ndim(rank) == 0:
        place = _place_of_rank(x, rank, axis)
        if place is None:
            place = _order(x, axis, False)[(slice(None),) * axis + (slice(rank, rank + 1),)]
    else:
        place = np.take_along_axis(_order(x, axis, False), rank, axis)
    values, places = take_along(x, place, axis, keepdims)
    return in_rows(values), in_rows(places)


def kthvalue(x: Array, k: int, axis: int, keepdims: bool) -> tuple[Any, Any]:
    if not x.ndim:
        return np.array(x), np.zeros((), np.int64)
    return _pick(x, k - 1, axis, keepdims)


def median(x: Array, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """Return the lower of the two middle elements; the first nan if there is one."""
    if not x.ndim:
        return np.array(x), np.zeros((), np.int64)
    n = x.shape[axis]
    if n == 0:
        return np.full(np.delete(x.shape, axis), np.nan).astype(x.dtype), np.zeros(np.delete(x.shape, axis), np.int64)
    rank: Any = (n - 1) // 2
    if x.dtype.kind in "fV":
        missing = np.isnan(x).sum(axis, keepdims=True)
        if missing.any():
            rank = np.where(missing > 0, n - missing, rank)
    return _pick(x, rank, axis, keepdims)


def nanmedian(x: Array, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """Return the median of the elements that are not nan; nan if all are."""
    if x.dtype.kind not in "fV" or not x.ndim or not x.shape[axis]:
        return median(x, axis, keepdims)
    there = x.shape[axis] - np.isnan(x).sum(axis, keepdims=True)
    return _pick(x, np.maximum(there - 1, 0) // 2, axis, keepdims)


def mode(x: Array, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """Return the smallest of the most frequent elements, and its last index."""
    if not x.ndim:
        return np.array(x), np.zeros((), np.int64)
    order = _order(x, axis, False)
    values = np.moveaxis(np.take_along_axis(_keys(x), order, axis), axis, -1)
    n = values.shape[-1]
    starts = np.ones(values.shape, bool)
    starts[..., 1:] = values[..., 1:] != values[..., :-1]
    places = np.arange(n)
    first = np.maximum.accumulate(np.where(starts, places, 0), -1)  # where each element's run begins
    length = places - first
    # The longest run; argmax takes the first of equals, which is the smallest value, at its run's last index.
    rank = np.expand_dims(np.argmax(length, -1), axis)
    place = np.take_along_axis(order, rank, axis)
    found, places = take_along(x, place, axis, keepdims)
    return in_rows(found), in_rows(places)


# --- bins


def bincount(x: Array, weights: Array | None, minlength: int) -> Array:
    if weights is None:
        return np.bincount(x.astype(np.int64), minlength=minlength)
    counts = np.bincount(x.astype(np.int64), weights.astype(np.float64), minlength)
    return counts.astype(np.float32) if weights.dtype == np.float32 else counts


def histc(x: Array, bins: int, low: float, high: float) -> Array:
    """Count the elements in each of equal bins; those outside the range are not counted."""
    flat = x.reshape(-1)
    if low == high:
        low, high = (float(flat.min()), float(flat.max())) if flat.size else (low, high)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low == high:
        low, high = low - 1, high + 1
    first, last, count = np.asarray([low, high, bins], x.dtype)
    inside = flat[(flat >= first) & (flat <= last)]
    places = ((inside - first) * count / (last - first)).astype(np.int64)  # in this order, for the rounding
    return np.bincount(np.minimum(places, bins - 1), minlength=bins).astype(x.dtype)


def histogram(x: Array, edges: Array, weight: Array | None, density: bool) -> tuple[Array, Array]:
    counts = np.histogram(x.reshape(-1), edges, density=density, weights=None if weight is None else weight.reshape(-1))
    return counts[0].astype(x.dtype), edges


def searchsorted(edges: Array, x: Array, sorter: Array | None, right: bool, dtype: Any) -> Array:
    """Return where elements would be inserted to keep each row of edges sorted."""
    side = "right" if right else "left"
    if edges.ndim == 1:
        return np.asarray(np.searchsorted(_keys(edges), _keys(x), side, sorter)).astype(dtype)  # type: ignore[call-overload]
    if not x.size or not edges.size:
        return np.zeros(x.shape, dtype)
    rows, wanted = edges.reshape(-1, edges.shape[-1]), x.reshape(-1, x.shape[-1])
    sorters = [None] * len(rows) if sorter is None else sorter.reshape(rows.shape)
    found = [np.searchsorted(row, each, side, order) for row, each, order in zip(rows, wanted, sorters, strict=True)]  # type: ignore[call-overload]
    return np.asarray(found, dtype).reshape(x.shape)
