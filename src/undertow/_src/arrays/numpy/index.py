"""Advanced indexing, masks and flat positions on NumPy. Scatters and gathers are in scatter.py.

`indices` has one entry per leading axis: an array of integers, a mask over one or more axes, or None for an axis that
is kept whole. Indices are in range here; the public functions check. A target is copied with `np.array`, because a
0-dim gradient may be a NumPy scalar, which stays one under `.copy()`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from undertow._src.arrays.numpy import scatter
from undertow._src.arrays.numpy.order import laid_out_as
from undertow._src.arrays.numpy.shape import copy, leading, sum_to_shape

Array = np.ndarray[Any, np.dtype[Any]]
Indices = Sequence[Array | None]


def numpy_key(indices: Indices) -> tuple[Any, ...]:
    """Return indices as NumPy takes them: there, None would be a new axis."""
    return tuple(
        [slice(None) if each is None else each if each.dtype != np.uint8 else each.astype(bool) for each in indices]
    )


def index(x: Array, *indices: Array | None) -> Array:
    """x[indices]."""
    last = indices[-1]
    if last is not None and last.dtype.kind == "i" and not any(each is not None for each in indices[:-1]):
        return x.take(last, len(indices) - 1)
    picked = x[numpy_key(indices)]
    if not picked.flags.c_contiguous:
        return picked.copy("C")
    return picked.reshape(-1).reshape(picked.shape) if 1 in picked.shape else picked  # strides of axes of length 1


def index_summed(x: Array, shape: tuple[int, ...], *indices: Array | None) -> Array:
    """Return x[indices] summed to a shape that broadcasts to it; the adjoint of index_put by its values."""
    return sum_to_shape(index(x, *indices), shape)


def index_put(x: Array, values: Array, *indices: Array | None, accumulate: bool) -> Array:
    """Return a copy of x with [indices] = values, or += with repeated positions accumulated."""
    key = numpy_key(indices)
    if accumulate and len(key) == 1 and key[0].dtype.kind == "b":  # a mask selects no position twice
        out = np.array(x, order="C")
        out[key] = out[key] + values
        return laid_out_as(x, out)
    return laid_out_as(x, scatter.index_put(x, key, values, accumulate))


def index_backward(g: Array, shape: tuple[int, ...], *indices: Array | None) -> Array:
    """Return the adjoint of `index`: g accumulated where it was taken from."""
    first = indices[0]
    if len(indices) == 1 and first is not None and shape:
        if first.dtype.kind == "i":
            rows = np.where(first < 0, first + shape[0], first).reshape(-1)
            width = math.prod(shape[1:])
            return scatter.add_rows(g.reshape(rows.size, width), rows, shape[0]).reshape(shape)
        out = np.zeros(shape, g.dtype)
        out[numpy_key(indices)] = g
        return out
    return index_put(np.zeros(shape, g.dtype), g, *indices, accumulate=True)


# --- slices of an axis by index


def index_select(x: Array, axis: int, index: Array) -> Array:
    """Return the slices of an axis that an index selects."""
    if not x.ndim:
        return x.reshape(1).take(index).reshape(())
    return x.take(index.reshape(-1), axis)


def index_select_backward(g: Array, shape: tuple[int, ...], axis: int, index: Array) -> Array:
    """Return the adjoint of `index_select`: slices accumulated where they were taken from."""
    if not shape:
        return np.asarray(g.sum(), g.dtype)
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    rows = index.reshape(-1)
    if outer != 1:
        rows = (np.arange(outer)[:, None] * shape[axis] + rows).reshape(-1)
    return scatter.add_rows(g.reshape(rows.size, inner), rows, outer * shape[axis]).reshape(shape)


def gather_backward(g: Array, shape: tuple[int, ...], axis: int, index: Array) -> Array:
    """Return the adjoint of `gather`: elements accumulated where they were taken from."""
    out = np.zeros(shape, g.dtype)
    np.add.at(out.reshape(-1), scatter.positions_along(index, axis, shape), g.reshape(-1))
    return out


def index_copy(x: Array, axis: int, index: Array, source: Array) -> Array:
    """Return a copy of x with the selected slices replaced by source's."""
    out = np.array(x, order="C")
    if x.ndim:
        out[(*leading(axis), index.reshape(-1))] = source
    elif index.size:
        out[...] = source.reshape(-1)[-1]
    return out


def index_fill(x: Array, axis: int, index: Array, value: Any) -> Array:
    """Return a copy of x with the selected slices replaced by a value."""
    out = copy(np.asarray(x))
    if x.ndim:
        out[(*leading(axis), index.reshape(-1))] = value
    elif index.size:
        out[...] = value
    return out


def scatter_value(x: Array, axis: int, index: Array, value: Any) -> Array:
    """Return a copy of x with one value at the positions of an index along an axis."""
    out = np.array(x, order="C")
    out.reshape(-1)[scatter.positions_along(index, axis, x.shape)] = value
    return out


# --- masks and flat positions


def masked_select(x: Array, mask: Array) -> Array:
    """Return the elements where a mask is true, in order; both are broadcast to one shape."""
    if x.shape != mask.shape:
        x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """x with the elements where a mask is true replaced by source's first elements, in order."""
    if x.shape != mask.shape:
        x, mask = np.broadcast_arrays(x, mask)
    out = np.array(x, order="C")
    out[mask] = source.reshape(-1)[: np.count_nonzero(mask)]
    return out


def masked_fill(x: Array, mask: Array, value: Any) -> Array:
    """Return x with a value where a mask is true; both are broadcast to one shape."""
    if x.shape != mask.shape:
        x, mask = np.broadcast_arrays(x, mask)
    out = np.array(x, order="C")
    np.copyto(out, value, where=mask, casting="unsafe")
    return out


def take_flat(x: Array, index: Array) -> Array:
    """Return elements by their index in the flattened x; negative ones count from the end."""
    return x.reshape(-1).take(index)


def put_flat(x: Array, index: Array, source: Array, accumulate: bool) -> Array:
    """Return a copy of x with the elements at flat indices replaced by source's, or source's added to them."""
    out = np.array(x, order="C")
    flat, places = out.reshape(-1), index.reshape(-1)
    if accumulate:
        np.add.at(flat, places, source.reshape(-1))
    else:
        flat[places] = source.reshape(-1)
    return laid_out_as(x, out)
