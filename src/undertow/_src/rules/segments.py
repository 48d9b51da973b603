"""Segments of a tensor, each reduced to one number. An index gives the segment of each element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.index import share_out
from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace


def start(xp: Namespace, data: Array, counts: Array, axis: int, value: float) -> Array:
    """Return the initial value of every segment, and one more for elements that belong to none."""
    shape = (*data.shape[:axis], counts.shape[axis] + 1, *data.shape[axis + 1 :])
    return xp.zeros(shape, xp.dtype_of(data)) + value


def folded(
    xp: Namespace, data: Array, runs: Array, counts: Array, reduce: str, axis: int, initial: float, empty: float
) -> Array:
    """Reduce each segment; the mean is the sum over the count, and `empty` for an empty segment."""
    index = xp.broadcast_to(runs, data.shape)
    fold = "sum" if reduce == "mean" else reduce
    whole = xp.scatter_reduce(start(xp, data, counts, axis, initial), axis, index, data, fold, True)
    result = xp.slice_along(whole, axis, 0, counts.shape[axis], 1)
    if reduce != "mean":
        return result
    several = xp.astype(xp.maximum(counts, xp.ones_like(counts)), xp.dtype_of(data))
    return xp.where(xp.broadcast_to(counts, result.shape) == 0, empty, result / several)


def gradient(
    xp: Namespace, g: Array, data: Array, runs: Any, counts: Array, reduce: str, axis: int, initial: float
) -> Array:
    """Give every element its part of its segment's gradient."""
    index = xp.broadcast_to(runs, data.shape)
    if reduce == "mean":
        g = g / xp.astype(xp.maximum(counts, xp.ones_like(counts)), xp.dtype_of(g))
    widths = tuple([(0, 1 if place == axis else 0) for place in range(g.ndim)])
    padded = xp.pad(g, widths, 0)
    if reduce in ("sum", "mean"):
        return xp.gather(padded, axis, index)
    own = start(xp, data, counts, axis, initial)
    whole = xp.scatter_reduce(own, axis, index, data, reduce, True)
    # The initial value has no gradient, but it is a factor of a product.
    return share_out(xp, padded, own, data, index, whole, axis, reduce, reduce == "prod")[1]


segment_reduce = op(
    "segment_reduce",
    lambda xp, data, runs, counts, *, reduce, axis, initial, empty: folded(
        xp, data, runs, counts, reduce, axis, initial, empty
    ),
    data=gradient,
)
