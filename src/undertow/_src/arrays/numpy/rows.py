"""Reductions along the last axis, which NumPy does slowly where rows are short.

NumPy starts a loop per row, about 50 ns each; a product with a vector of ones, or a loop over columns, does not.
Softmax, the norms and global pooling are built on these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_BLOCK_BYTES = 1 << 18  # rows handled at a time, so that several passes over them stay in the cache
_BLAS_TYPES = (np.float32, np.float64)
_LONGEST_DOT_ROW = 4096  # beyond this NumPy's pairwise sum is as fast and more accurate
_SHORTEST_DOT_ROW = 48  # below this NumPy's vecdot spends its time between rows
_LONGEST_SWEPT_ROW = 96  # up to this a loop over columns beats a loop per row


def row_blocks(x: Array) -> Iterator[slice]:
    """Slices of a matrix's rows, each about as large as a cache."""
    step = max(1, _BLOCK_BYTES // max(1, x.shape[1] * x.dtype.itemsize))
    for start in range(0, x.shape[0], step):
        yield slice(start, min(start + step, x.shape[0]))


def as_rows(x: Array, trailing: int = 1) -> Array:
    """x as a matrix whose rows are what the last `trailing` axes span."""
    split = x.ndim - trailing
    return x.reshape(math.prod(x.shape[:split]), math.prod(x.shape[split:]))


def row_sums(x: Array) -> Array:
    """Σⱼ x[i, j] of a matrix."""
    if x.dtype.type in _BLAS_TYPES and x.shape[1] <= _LONGEST_DOT_ROW and x.size > 256:
        return np.matmul(x, np.ones(x.shape[1], x.dtype))
    return np.add.reduce(x, axis=1)


def row_dots(x: Array, y: Array) -> Array:
    """Σⱼ x[i, j] y[i, j] of two real matrices."""
    return np.vecdot(x, y) if x.shape[1] >= _SHORTEST_DOT_ROW else row_sums(x * y)


def row_maxima(x: Array) -> Array:
    """maxⱼ x[i, j] of a matrix, nan where a row has one."""
    rows, columns = x.shape
    if columns > _LONGEST_SWEPT_ROW or rows < 2 * columns:
        return np.maximum.reduce(x, axis=1)
    out = np.empty(rows, x.dtype)
    for block in row_blocks(x):
        best, part = out[block], x[block]
        best[...] = part[:, 0]
        for j in range(1, columns):
            np.maximum(best, part[:, j], out=best)
    return out


def is_last(x: Array, axis: int) -> bool:
    """Whether the axis is x's last; a 0-d array counts as a row of one."""
    return x.ndim == 0 or axis % x.ndim == x.ndim - 1


def _kept(x: Array) -> tuple[int, ...]:
    """Return the shape of x after its last axis is reduced to length 1."""
    return (*x.shape[:-1], 1) if x.ndim else ()


def sum_along(x: Array, axis: int) -> Array:
    """Σ along one axis, which stays as an axis of length 1."""
    if is_last(x, axis):
        return row_sums(as_rows(x)).reshape(_kept(x))
    return np.add.reduce(x, axis=axis, keepdims=True)


def dot_along(x: Array, y: Array, axis: int) -> Array:
    """Σ x·y along one axis, which stays as an axis of length 1; x and y have one shape."""
    if is_last(x, axis):
        return row_dots(as_rows(x), as_rows(y)).reshape(_kept(x))
    return np.add.reduce(x * y, axis=axis, keepdims=True)


def max_along(x: Array, axis: int) -> Array:
    """Return the maximum along one axis of at least one element, which is kept with length 1; nan where there is one."""
    if is_last(x, axis):
        return row_maxima(as_rows(x)).reshape(_kept(x))
    return np.maximum.reduce(x, axis=axis, keepdims=True)


def channels_to_back(x: Array) -> Array:
    """Return images (batch, channel, *size) as (batch, *size, channel)."""
    return x.transpose(0, *range(2, x.ndim), 1)


def has_channels_last(x: Array) -> bool:
    """Whether images are channels last in memory: an order that PyTorch keeps, but not for sequences."""
    return x.ndim > 3 and not x.flags.c_contiguous and channels_to_back(x).flags.c_contiguous


def channel_sums(x: Array) -> Array:
    """Σ over every axis but axis 1, the channels; partial sums are added in float64."""
    batch, channels = x.shape[:2]
    if has_channels_last(x) and x.dtype.type in _BLAS_TYPES:
        pixels = channels_to_back(x).reshape(batch, -1, channels)
        return _sum_over_batch(np.matmul(np.ones(pixels.shape[1], x.dtype), pixels))
    rows = x.reshape(batch * channels, math.prod(x.shape[2:]))
    partial = rows if rows.shape[1] == 1 else row_sums(rows)
    return _sum_over_batch(partial.reshape(batch, channels))


def channel_dots(x: Array, y: Array) -> Array:
    """Σ x·y over every axis but axis 1, the channels; partial sums are added in float64."""
    if has_channels_last(x) and has_channels_last(y):
        return channel_sums(x * y)
    batch, channels = x.shape[:2]
    shape = batch * channels, math.prod(x.shape[2:])
    rows = x.reshape(shape), y.reshape(shape)
    partial = rows[0] * rows[1] if shape[1] == 1 else row_dots(*rows)
    return _sum_over_batch(partial.reshape(batch, channels))


def _sum_over_batch(partial: Array) -> Array:
    return np.add.reduce(partial, axis=0, dtype=np.float64).astype(partial.dtype)
