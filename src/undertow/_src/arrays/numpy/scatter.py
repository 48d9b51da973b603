"""Gathering and scattering by index, and their relatives.

NumPy's one fast scatter is `np.add.at` on a flat array with a flat index (about a nanosecond per element, where rows or
tuples of indices take ten times that), so everything here turns its index into flat positions first. Indices must be in
range and not negative; the caller wraps negative ones. gather and scatter_add are each other's adjoints, and so are
`np.take` along an axis and index_add.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from undertow._src.arrays.quiet import quiet

Array = np.ndarray[Any, np.dtype[Any]]

_SMALL = 1 << 12  # grids of indices up to this size are cached
_FEW_RUNS = 12  # up to this many slices are added faster than elements
_CHUNK = 1 << 15  # flat positions made at a time: they are eight bytes each, and should stay in the cache


def _grid(shape: tuple[int, ...], steps: tuple[int, ...], skip: int = -1) -> Array:
    """Σ iₐ·stepₐ over the axes of an index of `shape`, one axis left out, as an array that broadcasts against it."""
    total: Array = np.zeros((1,) * len(shape), np.intp)
    for axis, (n, step) in enumerate(zip(shape, steps, strict=True)):
        if axis != skip:
            total = total + (np.arange(n) * step).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return total


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many elements one step along each axis of a C-contiguous array skips."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@lru_cache(maxsize=64)
def _small_grid(shape: tuple[int, ...], target: tuple[int, ...], axis: int) -> tuple[int, Array]:
    """Return one step along the axis of an array of `target` shape, and the cached grid of the other axes, for loops."""
    steps = _steps(target)
    grid = _grid(shape, steps, skip=axis)
    grid.flags.writeable = False
    return steps[axis], grid


def positions_along(index: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """Return flat positions in an array of `shape` of an index along `axis`; its other axes may be shorter."""
    if not shape:
        return np.zeros(index.size, np.intp)
    axis %= len(shape)
    index = index.reshape(index.shape or (1,))
    if index.size <= _SMALL:
        step, grid = _small_grid(index.shape, shape, axis)
    else:
        steps = _steps(shape)
        step, grid = steps[axis], _grid(index.shape, steps, skip=axis)
    positions = np.multiply(index, step, dtype=np.intp)
    positions += grid
    return positions.reshape(-1)


def _like_index(source: Array, index: Array) -> Array:
    """Return the corner of source that a smaller index uses, flat."""
    if source.shape != index.shape:
        source = source[tuple(slice(n) for n in index.shape)]
    return source.reshape(-1)


def gather(x: Array, axis: int, index: Array) -> Array:
    """out[i, j, …] = x[index[i, j, …], j, …] with the index along `axis`; the adjoint of scatter_add."""
    return x.reshape(-1).take(positions_along(index, axis, x.shape)).reshape(index.shape)


def scatter(x: Array, axis: int, index: Array, source: Array) -> Array:
    """Return a copy of x with out[index[i, j, …], j, …] = source[i, j, …]; the last of several writes stays."""
    out = np.array(x, order="C")
    out.reshape(-1)[positions_along(index, axis, x.shape)] = _like_index(source, index)
    return out


@quiet
def scatter_add(x: Array, axis: int, index: Array, source: Array) -> Array:
    """Return a copy of x with out[index[i, j, …], j, …] += source[i, j, …]; the adjoint of gather."""
    out = np.array(x, order="C")
    np.add.at(out.reshape(-1), positions_along(index, axis, x.shape), _like_index(source, index))
    return out


_REDUCERS = {"sum": (np.add, 0), "mean": (np.add, 0), "prod": (np.multiply, 1), "amax": (np.maximum, -np.inf),
             "amin": (np.minimum, np.inf)}  # fmt: skip


@quiet
def scatter_reduce(x: Array, axis: int, index: Array, source: Array, reduce: str, include_self: bool) -> Array:
    """Return a copy of x with indexed elements reduced with source; without include_self their own value does not count.

    `reduce` is sum, prod, mean, amax or amin.
    """
    out = np.array(x, order="C")
    flat, positions = out.reshape(-1), positions_along(index, axis, x.shape)
    reducer, identity = _REDUCERS[reduce]
    if not include_self:
        flat[positions] = _representable(identity, x.dtype)
    reducer.at(flat, positions, _like_index(source, index))
    if reduce == "mean":
        counts = np.full(flat.shape, int(include_self), np.intp)
        np.add.at(counts, positions, 1)
        divide = np.floor_divide if x.dtype.kind in "iu" else np.true_divide
        divide(flat, np.maximum(counts, 1).astype(x.dtype), out=flat)
    return out


def _representable(identity: float, dtype: np.dtype) -> Any:
    """Return the identity of a reduction in the dtype; integers and bools have no infinity but a largest value."""
    if dtype.kind == "b":
        return identity > 0
    if dtype.kind in "iu" and math.isinf(identity):
        return np.iinfo(dtype).max if identity > 0 else np.iinfo(dtype).min
    return identity


# --- whole slices by index ----------------------------------------------------------------------------------------


def _row_chunks(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


@quiet
def add_rows(rows: Array, index: Array, count: int) -> Array:
    """(count, width) with out[index[i]] += rows[i]: the gradient of an embedding, and a segment sum."""
    out = np.zeros((count, rows.shape[1]), rows.dtype)
    _add_rows_into(out, index, rows)
    return out


def _add_rows_into(out: Array, index: Array, rows: Array) -> None:
    width = rows.shape[1]
    flat, columns, starts = out.reshape(-1), np.arange(width), np.multiply(index, width, dtype=np.intp)
    for chunk in _row_chunks(len(rows), width):
        positions = starts[chunk, None] + columns
        np.add.at(flat, positions.reshape(-1), np.ascontiguousarray(rows[chunk]).reshape(-1))


@quiet
def index_add(x: Array, axis: int, index: Array, source: Array) -> Array:
    """Return a copy of x with out[…, index[i], …] += source[…, i, …] along an axis; the adjoint of np.take."""
    out = np.array(x, order="C")
    if not x.ndim:
        np.add.at(out.reshape(-1), index.reshape(-1), source.reshape(-1))
        return out
    axis %= x.ndim
    outer, length, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    index = index.reshape(-1)
    runs = _runs(index)
    if runs is not None:
        before = (slice(None),) * axis
        for first, last, step in runs:
            start, stop = int(index[first]), int(index[last - 1]) + step
            target = out[(*before, slice(start, stop if stop >= 0 else None, step))]
            np.add(target, source[(*before, slice(first, last))], out=target)
        return out
    rows = source.reshape(outer * index.size, inner)
    starts = (np.arange(outer)[:, None] * length + index).reshape(-1)
    _add_rows_into(out.reshape(outer * length, inner), starts, rows)
    return out


def _runs(index: Array) -> list[tuple[int, int, int]] | None:
    """Return an index as a few ascending or descending runs (from, to, ±1), as padding has; None for any other."""
    if index.size < _FEW_RUNS:
        return None
    steps = np.diff(index)
    runs: list[tuple[int, int, int]] = []
    first = 0
    while first < index.size:
        if len(runs) == _FEW_RUNS:
            return None
        step = -1 if first < steps.size and steps[first] == -1 else 1
        others = steps[first:] != step
        last = first + 1 + (int(others.argmax()) if others.any() else others.size)
        runs.append((first, last, step))
        first = last
    return runs


@quiet
def index_put(x: Array, index: tuple[Any, ...], values: Array, accumulate: bool) -> Array:
    """Return a copy of x with out[index] = values, or += with repeated indices accumulated."""
    out = np.array(x, order="C")
    if not accumulate:
        out[index] = values
        return out
    positions, width = _indexed_positions(x.shape, index)
    target_shape = positions.shape + x.shape[x.ndim - width :]
    rows = np.broadcast_to(values, target_shape).reshape(positions.size, math.prod(x.shape[x.ndim - width :]))
    _add_rows_into(out.reshape(-1, rows.shape[1]) if rows.shape[1] else out, positions.reshape(-1), rows)
    return out


def _indexed_positions(shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[Array, int]:
    """Return which rows of an array of `shape` an index selects, and how many trailing axes a row spans."""
    arrays = [part for part in index if isinstance(part, np.ndarray) and part.dtype.kind in "iu"]
    if len(arrays) == len(index):
        lead = shape[: len(index)]
        wrapped = [np.where(part < 0, part + n, part) for part, n in zip(arrays, lead, strict=True)]
        total: Array = np.zeros((), np.intp)
        for part, step in zip(wrapped, _steps(lead), strict=True):
            total = total + part * step
        return total, len(shape) - len(index)
    return np.arange(math.prod(shape)).reshape(shape)[index], 0  # any index at all: let NumPy resolve it


# --- one-hot and unique -------------------------------------------------------------------------------------------


def one_hot(index: Array, classes: int) -> Array:
    """int64 (*index.shape, classes), 1 where the last axis equals the index."""
    out = np.zeros((*index.shape, classes), np.int64)
    out.reshape(-1)[np.arange(index.size) * classes + index.reshape(-1)] = 1
    return out


def unique(x: Array, axis: int | None = None) -> tuple[Array, Array, Array]:
    """Sorted distinct elements (or slices along an axis), the inverse index in x's shape (or length), and counts."""
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    return values, inverse.reshape(x.shape if axis is None else -1), counts


def unique_consecutive(x: Array, axis: int | None = None) -> tuple[Array, Array, Array]:
    """Return the first of every run of equal elements (or slices along an axis), the inverse index, and run lengths."""
    count = x.size if axis is None else x.shape[axis]
    rows = (x if axis is None else np.moveaxis(x, axis, 0)).reshape(count, x.size // max(count, 1))
    starts = np.ones(len(rows), bool)
    np.any(rows[1:] != rows[:-1], axis=1, out=starts[1:])
    first = np.flatnonzero(starts)
    values = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
    inverse = np.cumsum(starts) - 1
    counts = np.diff(np.append(first, len(rows)))
    return values, inverse.reshape(x.shape if axis is None else -1), counts
