"""Advanced indexing, gathers, scatters and rows of tables on JAX.

Indices are in range here: the public functions check those they can see, and XLA keeps the others from reading foreign
memory. They are used in int32. A mask can serve as an index only while its values are known; `where` serves the cases
that need no count of what it selects.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undertow._src.base import tracer
from undertow._src.arrays.jax.shape import sum_to_shape
from undertow._src.arrays.jax.tracing import IN_BOUNDS, ShapeNeedsValues, as_short_index, is_traced, picked, values_of

Array = Any
Shape = tuple[int, ...]

MASK_CURE = (
    "Keep the shape: torch.where(mask, x, other), or multiply by the mask ((x * mask).sum() / mask.sum() is the mean of "
    "x[mask]); cross_entropy and nll_loss have ignore_index. Or run the step eagerly: compile(step, "
    'fallback="eager").'
)


def _key(word: str, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return indices as NumPy and JAX take them: there, None would be a new axis."""
    key: list[Any] = []
    for each in indices:
        if each is None:
            key.append(slice(None))
        elif each.dtype in (np.bool_, np.uint8):
            if is_traced(each):
                raise ShapeNeedsValues(word, MASK_CURE)
            key.append(np.asarray(each).astype(bool))
        else:
            key.append(as_short_index(each))
    return tuple(key)


def index(x: Array, *indices: Array | None) -> Array:
    """x[indices]."""
    return jnp.asarray(x).at[_key("indexing with a mask", indices)].get(**IN_BOUNDS)


def index_put(x: Array, values: Array, *indices: Array | None, accumulate: bool) -> Array:
    """Return x with [indices] = values, or += with repeated positions accumulated."""
    values = jnp.asarray(values, x.dtype)
    mask = _lone_mask(indices)
    if mask is not None and (is_traced(mask) or _is_shared(values.shape, x.ndim - mask.ndim - len(indices) + 1)):
        mask, given = _spread(x.shape, mask, values, len(indices) - 1)
        return jnp.where(mask, x + given if accumulate else given, x)
    at = jnp.asarray(x).at[_key("writing with a mask among other indices", indices)]
    return at.add(values) if accumulate else at.set(values)


def index_summed(x: Array, shape: Shape, *indices: Array | None) -> Array:
    """Return x[indices] summed to a shape that broadcasts to it; the adjoint of index_put by its values."""
    mask = _lone_mask(indices)
    if mask is None or not is_traced(mask):
        return sum_to_shape(index(x, *indices), shape)
    _, add_up = jax.vjp(lambda values: _spread(x.shape, mask, values, len(indices) - 1)[1], jnp.zeros(shape, x.dtype))
    inside = _spread(x.shape, mask, jnp.zeros(shape, x.dtype), len(indices) - 1)[0]
    return add_up(jnp.where(inside, x, 0))[0]


def _lone_mask(indices: tuple[Any, ...]) -> Any:
    """Return the mask among indices if it is the only index; the axes before it stay whole."""
    last = indices[-1]
    alone = last is not None and last.dtype in (np.bool_, np.uint8) and all(each is None for each in indices[:-1])
    return last if alone else None


def _is_shared(shape: Shape, behind: int) -> bool:
    """Whether all elements that a mask selects get the same values: they have no axis for it, or one of length 1."""
    return len(shape) <= behind or shape[len(shape) - 1 - behind] == 1


def _spread(shape: Shape, mask: Array, values: Array, before: int) -> tuple[Array, Array]:
    """Return a mask over axes of an array, and what x[:, mask] = values would write there, in the array's shape."""
    behind = len(shape) - before - mask.ndim
    mask = mask if mask.dtype == bool else mask != 0
    if not values.size:  # so the mask selects nothing
        values = jnp.zeros((), values.dtype)
    if not _is_shared(values.shape, behind):  # in order: each one's index is how many were selected before it
        values = jnp.broadcast_to(values, (*shape[:before], *values.shape[max(0, values.ndim - 1 - behind) :]))
        turn = jnp.cumsum(mask.reshape(-1), dtype=np.int32) - 1
        values = jnp.take(values, turn, axis=before, mode="clip").reshape(shape)
    elif values.ndim > behind:
        axis = values.ndim - 1 - behind
        values = values.reshape(*values.shape[:axis], *[1] * mask.ndim, *values.shape[axis + 1 :])
    return mask.reshape(*mask.shape, *[1] * behind), jnp.broadcast_to(values, shape)


def index_backward(g: Array, shape: Shape, *indices: Array | None) -> Array:
    """Return the adjoint of `index`: g accumulated where it was taken from."""
    first = indices[0]
    if len(indices) == 1 and first is not None and first.dtype.kind == "i" and shape:
        rows = jnp.where(first < 0, first + shape[0], first)
        return add_rows(g, rows, shape[0])
    return jnp.zeros(shape, g.dtype).at[_key("indexing with a mask", indices)].add(g)


# --- slices of an axis by index


def index_select(x: Array, axis: int, index: Array) -> Array:
    """Return the slices of an axis that an index selects."""
    if not x.ndim:
        return x
    return picked(x, index.reshape(-1), axis)


def index_select_backward(g: Array, shape: Shape, axis: int, index: Array) -> Array:
    """Return the adjoint of `index_select`: slices accumulated where they were taken from."""
    if not shape:
        return jnp.sum(g)
    return index_add(jnp.zeros(shape, g.dtype), axis, index, g)


def _slices(x: Array, axis: int, index: Array) -> Any:
    return jnp.asarray(x).at[(*[slice(None)] * (axis % x.ndim), as_short_index(index.reshape(-1)))]


def index_add(x: Array, axis: int, index: Array, source: Array) -> Array:
    """x with out[…, index[i], …] += source[…, i, …] along an axis; the adjoint of index_select."""
    return _added(_slices(x, axis, index), x, source) if x.ndim else x + jnp.sum(source)


def _added(at: Any, x: Array, source: Array) -> Array:
    """Return the sum of values at positions of x; for bools, their logical or."""
    return at.max(source) if x.dtype.kind == "b" else at.add(source)


def index_copy(x: Array, axis: int, index: Array, source: Array) -> Array:
    """Return x with the selected slices replaced by source's."""
    if x.ndim:
        return _slices(x, axis, index).set(source)
    return source.reshape(-1)[-1].astype(x.dtype) if index.size else x


def index_fill(x: Array, axis: int, index: Array, value: Any) -> Array:
    """Return x with the selected slices replaced by a value."""
    if x.ndim:
        return _slices(x, axis, index).set(jnp.asarray(value, x.dtype))
    return jnp.asarray(value, x.dtype).reshape(()) if index.size else x


# --- one index per element along an axis


def _along(index: Array, axis: int, ndim: int) -> tuple[Any, ...]:
    """Return an index along one axis as indices of all axes."""
    index = as_short_index(index)
    key = [np.arange(n, dtype=np.int32).reshape((-1,) + (1,) * (ndim - each - 1)) for each, n in enumerate(index.shape)]
    key[axis % ndim] = index
    return tuple(key)


def _like_index(source: Array, index: Array) -> Array:
    """Return the corner of source that a smaller index uses."""
    return source if source.shape == index.shape else source[tuple([slice(n) for n in index.shape])]


def _spans(x: Array, axis: int, index: Array) -> bool:
    """Whether an index has one element along its axis and x's length along the others: no position repeats."""
    return index.ndim == x.ndim and index.shape == tuple(
        [1 if each == axis % x.ndim else n for each, n in enumerate(x.shape)]
    )


def is_named(index: Array, axis: int, n: int) -> Array:
    """Return the position of an index of length 1 along an axis of length n as a mask, which XLA can fuse."""
    shape = [1] * index.ndim
    shape[axis % index.ndim] = n
    return as_short_index(index) == np.arange(n, dtype=np.int32).reshape(shape)


def gather(x: Array, axis: int, index: Array) -> Array:
    """out[i, j, …] = x[index[i, j, …], j, …] with the index along `axis`; the adjoint of scatter_add."""
    if not x.ndim:
        return jnp.broadcast_to(x, index.shape)
    if not index.ndim:
        return gather(x, axis, index.reshape(1)).reshape(())
    return jnp.asarray(x).at[_along(index, axis, x.ndim)].get(**IN_BOUNDS)


def gather_backward(g: Array, shape: Shape, axis: int, index: Array) -> Array:
    """Return the adjoint of `gather`: elements accumulated where they were taken from."""
    return scatter_add(jnp.zeros(shape, g.dtype), axis, index, g)


def _written(x: Array, axis: int, index: Array, write: Any) -> Array:
    """Return x with an update at an index; scalars count as vectors of length 1."""
    if not x.ndim or not index.ndim:
        flat = x.reshape(-1)
        return write(jnp.asarray(flat).at[_along(index.reshape(-1), 0, 1)]).reshape(x.shape)
    return write(jnp.asarray(x).at[_along(index, axis, x.ndim)])


def _flat_if(x: Array, index: Array, source: Array) -> Array:
    return source.reshape(-1) if not x.ndim or not index.ndim else _like_index(source, index)


def scatter(x: Array, axis: int, index: Array, source: Array) -> Array:
    """x with out[index[i, j, …], j, …] = source[i, j, …]."""
    if x.ndim and _spans(x, axis, index):
        return jnp.where(is_named(index, axis, x.shape[axis]), _like_index(source, index).astype(x.dtype), x)
    return _written(x, axis, index, lambda at: at.set(_flat_if(x, index, source)))


def scatter_value(x: Array, axis: int, index: Array, value: Any) -> Array:
    """Return x with one value at the positions of an index along an axis."""
    return _written(x, axis, index, lambda at: at.set(jnp.asarray(value, x.dtype)))


def scatter_add(x: Array, axis: int, index: Array, source: Array) -> Array:
    """x with out[index[i, j, …], j, …] += source[i, j, …]; the adjoint of gather."""
    if x.ndim and _spans(x, axis, index):
        return x + jnp.where(is_named(index, axis, x.shape[axis]), _like_index(source, index), 0)
    return _written(x, axis, index, lambda at: _added(at, x, _flat_if(x, index, source)))


def scatter_reduce(x: Array, axis: int, index: Array, source: Array, reduce: str, include_self: bool) -> Array:
    """Return x with indexed elements reduced with source; without include_self their own value does not count."""
    given = _flat_if(x, index, source).astype(x.dtype)
    if not include_self:
        x = scatter_value(x, axis, index, _identity(reduce, x.dtype))
    if reduce in ("sum", "mean"):
        out = _written(x, axis, index, lambda at: at.add(given))
        if reduce == "sum":
            return out
        counts = jnp.full(x.shape, int(include_self), np.int32)
        counts = jnp.maximum(_written(counts, axis, index, lambda at: at.add(1)), 1).astype(x.dtype)
        return out // counts if x.dtype.kind in "iu" else out / counts
    if reduce == "prod":
        return _written(x, axis, index, lambda at: at.mul(given))
    return _written(x, axis, index, lambda at: at.max(given) if reduce == "amax" else at.min(given))


def _identity(reduce: str, dtype: np.dtype[Any]) -> Any:
    """Return the neutral value; integers have no infinity but a largest value."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max
    return -math.inf if reduce == "amax" else math.inf


def put_along(values: Array, axis: int, index: Array, shape: Shape) -> Array:
    """Return zeros with out[index[i, j, …], j, …] = values[i, j, …] along an axis: gather's adjoint if no index repeats."""
    return scatter(jnp.zeros(shape, values.dtype), axis, index, values)


# --- masks and flat positions


def masked_select(x: Array, mask: Array) -> Array:
    """Return the elements where a mask is true, in order; both are broadcast to one shape."""
    (chosen,) = values_of("masked_select (x[mask])", MASK_CURE, mask)
    shape = np.broadcast_shapes(x.shape, chosen.shape)
    places = np.flatnonzero(np.broadcast_to(chosen, shape)).astype(np.int32)
    return jnp.broadcast_to(x, shape).reshape(-1).at[places].get(**IN_BOUNDS)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """x with the elements where a mask is true replaced by source's first elements, in order."""
    shape = np.broadcast_shapes(x.shape, mask.shape)
    mask = jnp.broadcast_to(mask, shape).reshape(-1)
    flat = source.reshape(-1)
    if not flat.size:
        return jnp.broadcast_to(x, shape)
    places = jnp.clip(jnp.cumsum(mask, dtype=np.int32) - 1, 0, flat.size - 1)
    given = jnp.asarray(flat).at[places].get(**IN_BOUNDS).astype(x.dtype)
    return jnp.where(mask, given, jnp.broadcast_to(x, shape).reshape(-1)).reshape(shape)


def masked_fill(x: Array, mask: Array, value: Any) -> Array:
    """Return x with a value where a mask is true; both are broadcast to one shape."""
    return jnp.where(mask, jnp.asarray(value).astype(x.dtype), x)


def take_flat(x: Array, index: Array) -> Array:
    """Return elements by their index in the flattened x; negative ones count from the end."""
    return jnp.asarray(x).reshape(-1).at[as_short_index(index)].get(**IN_BOUNDS)


def put_flat(x: Array, index: Array, source: Array, accumulate: bool) -> Array:
    """Return x with the elements at flat indices replaced by source's, or source's added to them."""
    at = jnp.asarray(x).reshape(-1).at[as_short_index(index.reshape(-1))]
    given = source.reshape(-1).astype(x.dtype)
    return (at.add(given) if accumulate else at.set(given)).reshape(x.shape)


# --- rows of tables


def take_rows(x: Array, index: Array) -> Array:
    """out[i, …] = x[index[i], …]; the adjoint of add_rows."""
    return jnp.asarray(x).at[as_short_index(index)].get(**IN_BOUNDS, wrap_negative_indices=False)


def add_rows(rows: Array, index: Array, count: int) -> Array:
    """(count, …) with out[index[i]] += rows[i]; the adjoint of take_rows."""
    width = rows.shape[index.ndim :]
    flat = rows.reshape(index.size, *width)
    wide = flat.astype(np.float32) if flat.dtype.itemsize < 4 else flat
    out = jnp.zeros((count, *width), wide.dtype)
    return out.at[as_short_index(index.reshape(-1))].add(wide, wrap_negative_indices=False).astype(rows.dtype)


def embedding_grad(g: Array, index: Array, count: int, padding: int, by_frequency: bool) -> Array:
    """Compute add_rows without the rows of `padding`, each divided by its index's frequency if `by_frequency`."""
    rows, flat = g.reshape(index.size, g.shape[-1]), index.reshape(-1)
    if by_frequency:
        often = jnp.zeros(count, np.int32).at[as_short_index(flat)].add(1)
        rows = rows / take_rows(often, flat).astype(rows.dtype)[:, None]
    if padding >= 0:
        rows = jnp.where((flat != padding)[:, None], rows, 0)
    return add_rows(rows, flat, count)


def sparse_embedding_grad(g: Array, index: Array, count: int, padding: int) -> Array:
    """Return embedding_grad: there are no sparse tensors here."""
    if tracer.current is not None:
        tracer.current.note_sparse_gradient((count, g.shape[-1]))
    return embedding_grad(g, index, count, padding, False)


def sparse_gather_grad(g: Array, shape: Shape, axis: int, index: Array) -> Array:
    """Return gather_backward: there are no sparse tensors here."""
    if tracer.current is not None:
        tracer.current.note_sparse_gradient(shape)
    return gather_backward(g, shape, axis, index)


def bag_max(x: Array, index: Array, bags: Array, scale: Array, count: int) -> tuple[Array, Array]:
    """Return the largest element of each column over a bag's rows (0 if empty), and the row it is from (−1 if none)."""
    rows = take_rows(x, index)
    counted = jnp.asarray(scale != 0)[:, None]
    bags = as_short_index(jnp.asarray(bags))
    best = jax.ops.segment_max(jnp.where(counted, rows, -math.inf), bags, count)
    wins = counted & (rows == take_rows(best, bags))
    places = jnp.where(wins, np.arange(len(rows), dtype=np.int32)[:, None], len(rows))
    first = jax.ops.segment_min(places, bags, count)
    there = first < len(rows)
    chosen = take_rows(index, jnp.minimum(first, len(rows) - 1)) if len(rows) else jnp.zeros(best.shape, np.int64)
    return jnp.where(there, best, 0).astype(x.dtype), jnp.where(there, chosen, -1).astype(np.int64)


def bag_max_grad(g: Array, chosen: Array, shape: Shape) -> Array:
    """Add gradients to the chosen elements; the adjoint of bag_max_take."""
    columns = np.arange(shape[1], dtype=np.int32)
    rows = jnp.maximum(as_short_index(chosen), 0)
    return jnp.zeros(shape, g.dtype).at[rows, columns].add(jnp.where(chosen >= 0, g, 0))


def bag_max_take(x: Array, chosen: Array) -> Array:
    """Return the chosen elements, 0 where there is none."""
    return jnp.where(chosen >= 0, gather(x, 0, jnp.maximum(chosen, 0)), 0)
