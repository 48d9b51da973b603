"""Sliding windows over the spatial axes of an array: the geometry and the views that convolution and pooling share.

An image batch is (batch, channel, *spatial). A window view adds one axis per kernel dimension without copying: element
[..., *k, *o] of the view is element [..., *(o·stride + k·dilation)] of the padded array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from undertow._src.arrays.quiet import quiet

Array = np.ndarray[Any, np.dtype[Any]]
Sizes = tuple[int, ...]


def window_counts(size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Sizes:
    """How many windows fit along each axis: ⌊(size + 2·padding − dilation·(kernel − 1) − 1) / stride⌋ + 1."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def interior(padding: Sizes, size: Sizes) -> tuple[slice, ...]:
    """Return the slices of a padded array's spatial axes that hold the original array."""
    return tuple(slice(p, p + n) for p, n in zip(padding, size, strict=True))


def last_axes(*parts: Any) -> tuple[Any, ...]:
    """Return the index that applies `parts` to the last axes and keeps all the others."""
    return (..., *parts)


def pad_spatial(x: Array, before: Sizes, after: Sizes, value: float = 0) -> Array:
    """x with `value` around its last axes; x itself where there is nothing to add."""
    if not any(before) and not any(after):
        return x
    rank = len(before)
    size = x.shape[x.ndim - rank :]
    padded = tuple(b + n + a for b, n, a in zip(before, size, after, strict=True))
    out = np.full(x.shape[: x.ndim - rank] + padded, value, x.dtype)
    out[last_axes(*interior(before, size))] = x
    return out


def window_view(x: Array, kernel: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes) -> Array:
    """Return the view (*lead, *kernel, *counts) of an already padded x (*lead, *spatial)."""
    lead = x.ndim - len(kernel)
    steps = x.strides[lead:]
    return np.lib.stride_tricks.as_strided(
        x,
        x.shape[:lead] + kernel + counts,
        x.strides[:lead]
        + tuple(d * s for d, s in zip(dilation, steps, strict=True))
        + tuple(d * s for d, s in zip(stride, steps, strict=True)),
    )


def kernel_offsets(kernel: Sizes) -> Iterator[Sizes]:
    """Every position inside the kernel, last axis fastest."""
    return itertools.product(*map(range, kernel))


def add_windows(view: Array, columns: Array, rank: int, kernel: Sizes) -> None:
    """Add columns to a window view whose windows overlap: one kernel position at a time, since those do not.

    Both have their kernel axes just before their last `rank` axes.
    """
    for offset in kernel_offsets(kernel):
        place = last_axes(*offset, *(slice(None),) * rank)
        target = view[place]
        np.add(target, columns[place], out=target)


def unfold(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    """Return columns (batch, channel·kernel, windows) of every window of x (im2col); the adjoint of fold."""
    counts = window_counts(x.shape[2:], kernel, stride, padding, dilation)
    view = window_view(pad_spatial(x, padding, padding), kernel, stride, dilation, counts)
    columns = np.ascontiguousarray(view)
    return columns.reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts))


@quiet
def fold(columns: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    """Sum columns (batch, channel·kernel, windows) back into images of `size` (col2im); the adjoint of unfold."""
    counts = window_counts(size, kernel, stride, padding, dilation)
    batch, channels = columns.shape[0], columns.shape[1] // math.prod(kernel)
    padded = np.zeros((batch, channels, *(n + 2 * p for n, p in zip(size, padding, strict=True))), columns.dtype)
    view = window_view(padded, kernel, stride, dilation, counts)
    add_windows(view, columns.reshape(view.shape), len(kernel), kernel)
    return np.ascontiguousarray(padded[last_axes(*interior(padding, size))])


def chunks(total: int, step: int) -> Iterator[slice]:
    """Slices of at most `step` that cover range(total)."""
    for start in range(0, total, step):
        yield slice(start, min(start + step, total))


def prefix(scratch: Array, shape: Sequence[int]) -> Array:
    """Return a contiguous array of `shape` in the first elements of a flat scratch buffer."""
    return scratch[: math.prod(shape)].reshape(shape)
