"""Running reductions along an axis, sorting, and counting in bins, on JAX."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.numpy import sort as numpy_sort
from undertow._src.arrays.jax.tracing import is_traced, on_host, platform_of, shaped, values_of
from undertow._src.arrays.numpy.reduce import accumulator, result_dtype

Array = Any

# --- running along an axis


def _running(function: Any, x: Array, axis: int) -> Array:
    wide = x.astype(accumulator(x.dtype))
    return (function(wide, axis % x.ndim) if x.ndim else wide).astype(result_dtype(x.dtype))


def cumsum(x: Array, axis: int, dtype: Any = None) -> Array:
    """y[i] = Σ x[j], j ≤ i. Integers give int64."""
    if dtype is None:
        return _running(lax.cumsum, x, axis)
    return _running(lax.cumsum, x.astype(dtype), axis).astype(dtype)


def cumprod(x: Array, axis: int) -> Array:
    """y[i] = Π x[j], j ≤ i. Integers give int64."""
    return _running(lax.cumprod, x, axis)


def logcumsumexp(x: Array, axis: int) -> Array:
    """y[i] = log Σ e^x[j], j ≤ i."""
    if not x.ndim:
        return x
    if x.dtype.kind == "c":
        top = jnp.max(x.real, axis, keepdims=True, initial=-math.inf)
        top = jnp.where(jnp.isfinite(top), top, 0)
        return jnp.log(jnp.cumsum(jnp.exp(x - top), axis)) + top
    return _running(lax.cumlogsumexp, x, axis)


def cummax(x: Array, axis: int) -> tuple[Array, Array]:
    """Return the running maximum and the index of its latest occurrence; nan is larger than all."""
    return _running_extreme(lax.cummax, x, axis)


def cummin(x: Array, axis: int) -> tuple[Array, Array]:
    """Return the running minimum and the index of its latest occurrence; nan is smaller than all."""
    return _running_extreme(lax.cummin, x, axis)


def _running_extreme(extreme: Any, x: Array, axis: int) -> tuple[Array, Array]:
    if not x.ndim:
        return x, jnp.zeros((), np.int64)
    axis %= x.ndim
    given = x.astype(np.uint8) if x.dtype.kind == "b" else x
    values = extreme(given, axis)
    hit = given == values
    if x.dtype.kind not in "biu":
        values = jnp.where(lax.cummax(jnp.isnan(x).astype(np.int32), axis) > 0, math.nan, values).astype(x.dtype)
        hit |= jnp.isnan(x)
    places = jnp.where(hit, lax.broadcasted_iota(np.int32, x.shape, axis), 0)
    return values.astype(x.dtype), lax.cummax(places, axis).astype(np.int64)


def recurrence(x: Array, factor: Array, axis: int) -> Array:
    """y[i] = x[i] + factor[i] y[i-1] along an axis."""
    if not x.ndim:
        return x

    def joined(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    return lax.associative_scan(joined, (jnp.broadcast_to(factor, x.shape), x), axis=axis % x.ndim)[1]


# --- in order; nan is larger than every number, ties keep their order


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Return the indices that sort x along an axis, in int32."""
    axis %= x.ndim
    places = lax.broadcasted_iota(np.int32, x.shape, axis)
    if not descending:
        return lax.sort((x, places), dimension=axis, num_keys=1)[1]
    # Sorting the reversed array and reversing the result keeps ties in order and puts nan first.
    order = lax.sort((jnp.flip(x, axis), places), dimension=axis, num_keys=1)[1]
    return jnp.flip(x.shape[axis] - 1 - order, axis)


def _taken(x: Array, places: Array, axis: int) -> Array:
    return jnp.take_along_axis(x, places, axis, mode="promise_in_bounds")


def _as_on_host(order: Array, x: Array, axis: int, first: int, sorted_there: Any) -> Array:
    """Return the first indices of an order; equal elements have the CPU's order (NOTE ties, numpy/introsort.py).

    `sorted_there` sorts a NumPy array. It is not called where no elements are equal.
    """
    axis %= x.ndim
    found = lax.slice_in_dim(order, 0, first, axis=axis)
    if platform_of(x) != "cpu" or x.shape[axis] < 2:
        return found
    values = _taken(x, lax.slice_in_dim(order, 0, min(first + 1, x.shape[axis]), axis=axis), axis)
    before, after = (lax.slice_in_dim(values, start, values.shape[axis] - 1 + start, axis=axis) for start in (0, 1))
    tied = ((before == after) | ((before != before) & (after != after))).any()

    def ask(x: Array) -> Array:
        return on_host(lambda array: sorted_there(array)[1].astype(np.int32), shaped(found.shape, np.int32), x)

    if is_traced(x):
        return lax.cond(tied, ask, lambda x: found, x)
    return ask(x) if tied else found


def sort(x: Array, axis: int, descending: bool, stable: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x, jnp.zeros((), np.int64)
    order, n = _order(x, axis, descending), x.shape[axis]
    if not stable and numpy_sort.SHORT < n <= numpy_sort.MOST:
        order = _as_on_host(order, x, axis, n, lambda array: numpy_sort.sort(array, axis, descending, stable))
    return _taken(x, order, axis), order.astype(np.int64)


def topk(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """Return the k largest (or smallest) along an axis, best first."""
    if not x.ndim:
        return x, jnp.zeros((), np.int64)
    order = _order(x, axis, largest)
    order = _as_on_host(order, x, axis, k, lambda array: numpy_sort.topk(array, k, axis, largest))
    return _taken(x, order, axis), order.astype(np.int64)


def _pick(x: Array, rank: Any, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the element of a rank (one number, or an array with the axis kept)."""
    axis %= x.ndim
    order = _order(x, axis, False)
    place = lax.slice_in_dim(order, rank, rank + 1, axis=axis) if type(rank) is int else _taken(order, rank, axis)
    values, places = _taken(x, place, axis), place.astype(np.int64)
    return (values, places) if keepdims else (jnp.squeeze(values, axis), jnp.squeeze(places, axis))


def kthvalue(x: Array, k: int, axis: int, keepdims: bool) -> tuple[Array, Array]:
    return _pick(x, k - 1, axis, keepdims) if x.ndim else (x, jnp.zeros((), np.int64))


def median(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the lower of the two middle elements; the first nan if there is one."""
    if not x.ndim:
        return x, jnp.zeros((), np.int64)
    n = x.shape[axis]
    if n == 0:
        shape = tuple(np.delete(x.shape, axis))
        return jnp.full(shape, math.nan, x.dtype), jnp.zeros(shape, np.int64)
    if x.dtype.kind not in "fV":
        return _pick(x, (n - 1) // 2, axis, keepdims)
    missing = jnp.isnan(x).sum(axis, keepdims=True, dtype=np.int32)
    return _pick(x, jnp.where(missing > 0, n - missing, (n - 1) // 2), axis, keepdims)


def nanmedian(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the median of the elements that are not nan; nan if all are."""
    if x.dtype.kind not in "fV" or not x.ndim or not x.shape[axis]:
        return median(x, axis, keepdims)
    there = x.shape[axis] - jnp.isnan(x).sum(axis, keepdims=True, dtype=np.int32)
    return _pick(x, jnp.maximum(there - 1, 0) // 2, axis, keepdims)


def mode(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the smallest of the most frequent elements, and its last index."""
    if not x.ndim:
        return x, jnp.zeros((), np.int64)
    axis %= x.ndim
    values = jnp.moveaxis(_taken(x, _order(x, axis, False), axis), axis, -1)
    n = values.shape[-1]
    same = jnp.concatenate([jnp.zeros((*values.shape[:-1], 1), bool), values[..., 1:] == values[..., :-1]], -1)
    places = lax.broadcasted_iota(np.int32, values.shape, values.ndim - 1)
    first = lax.cummax(jnp.where(same, 0, places), values.ndim - 1)  # where each element's run begins
    # The longest run; argmax takes the first of equals, which is the smallest value, at its run's last index.
    rank = lax.argmax(places - first, values.ndim - 1, np.int32) if n else jnp.zeros(values.shape[:-1], np.int32)
    return _pick(x, jnp.expand_dims(rank, axis), axis, keepdims)


# --- distinct elements and bins


UNIQUE_CURE = (
    "Call it before the compiled step, and give the result to the step as an argument. Or run the step eagerly: "
    'compile(step, fallback="eager").'
)


def _of_known(word: str, function: Any, x: Array, *rest: Any) -> Any:
    """Apply a NumPy function to known values."""
    (known,) = values_of(word, UNIQUE_CURE, x)
    return tuple([jnp.asarray(part) for part in function(known, *rest)])


def unique(x: Array, axis: int | None = None) -> tuple[Array, Array, Array]:
    """Sorted distinct elements (or slices along an axis), the inverse index in x's shape (or length), and counts."""
    return _of_known("unique", numpy_sort.unique, x, axis)


def unique_consecutive(x: Array, axis: int | None = None) -> tuple[Array, Array, Array]:
    """Return the first of every run of equal elements (or slices along an axis), the inverse index, and run lengths."""
    return _of_known("unique_consecutive", numpy_sort.unique_consecutive, x, axis)


def bincount(x: Array, weights: Array | None, minlength: int) -> Array:
    if is_traced(x, weights) and minlength:
        counts = jnp.bincount(x, weights if weights is None else weights.astype(np.float64), length=minlength)
        return (
            counts if weights is None else counts.astype(weights.dtype if weights.dtype == np.float32 else np.float64)
        )
    cure = "Say how many bins there are: torch.bincount(x, minlength=bins)."
    known, heavy = values_of("bincount", cure, x, weights)
    return jnp.asarray(numpy_sort.bincount(known, heavy, minlength))


def histc(x: Array, bins: int, low: float, high: float) -> Array:
    """Count the elements in each of equal bins; those outside the range are not counted."""
    flat = x.reshape(-1)
    bottom: Any = jnp.asarray(low, x.dtype)
    top: Any = jnp.asarray(high, x.dtype)
    if low == high:
        if flat.size:
            bottom, top = flat.min(), flat.max()
        bottom, top = jnp.where(bottom == top, bottom - 1, bottom), jnp.where(bottom == top, top + 1, top)
    places = ((flat - bottom) * jnp.asarray(bins, x.dtype) / (top - bottom)).astype(np.int32)
    inside = (flat >= bottom) & (flat <= top)
    return jnp.zeros(bins, x.dtype).at[jnp.clip(places, 0, bins - 1)].add(inside.astype(x.dtype))


def _counts(flat: Array, edges: Array, weight: Array | None) -> Array:
    """Count the elements between neighbouring edges; the last bin includes its upper edge."""
    bins = edges.shape[0] - 1
    place = jnp.searchsorted(edges, flat, side="right").astype(np.int32) - 1
    place = jnp.where(flat == edges[-1], bins - 1, place)
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    each = inside.astype(np.float64) if weight is None else jnp.where(inside, weight, 0)
    return jnp.zeros(bins, each.dtype).at[jnp.clip(place, 0, bins - 1)].add(each)


def histogram(x: Array, edges: Array, weight: Array | None, density: bool) -> tuple[Array, Array]:
    counts = _counts(x.reshape(-1), edges, None if weight is None else weight.reshape(-1))
    if density:
        counts = counts / counts.sum() / (edges[1:] - edges[:-1])
    return counts.astype(x.dtype), edges


def searchsorted(edges: Array, x: Array, sorter: Array | None, right: bool, dtype: Any) -> Array:
    """Return where elements would be inserted to keep each row of edges sorted."""
    side = "right" if right else "left"
    if sorter is not None:
        edges = _taken(edges, sorter, -1)
    if edges.ndim == 1:
        return jnp.searchsorted(edges, x, side=side).astype(dtype)
    rows, wanted = edges.reshape(-1, edges.shape[-1]), x.reshape(-1, x.shape[-1])
    found = jax.vmap(lambda row, each: jnp.searchsorted(row, each, side=side))(rows, wanted)
    return found.astype(dtype).reshape(x.shape)
