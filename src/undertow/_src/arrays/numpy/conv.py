"""Convolution over any number of spatial axes, and its two adjoints.

The three functions are the three contractions of one trilinear form Σ g·w·x, so each one's gradients are the others:

    conv(x, w)              →  y     ∂x = conv_input_grad(g, w)    ∂w = conv_weight_grad(g, x)
    conv_input_grad(g, w)   →  x     ∂g = conv(·, w)               ∂w = conv_weight_grad(g, ·)
    conv_weight_grad(g, x)  →  w     ∂g = conv(x, ·)               ∂x = conv_input_grad(g, ·)

NOTE: how it is fast. Images are lowered to a matrix of columns (one column per window) and multiplied by the weights,
a few images at a time so that the columns stay in the cache; channels lead, so the products need no transposition.
Where the stride is 1, a window's columns are the flat padded image shifted by a constant, so rows can be copied whole
if we also accept the few windows that wrap from one image row into the next; they are dropped from results and
multiplied by zero in weight gradients. That is the `grid`: the counts of windows, wrapping ones included.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from undertow._src.arrays.numpy.rows import has_channels_last
from undertow._src.arrays.numpy.windows import (
    Array,
    Sizes,
    add_windows,
    chunks,
    interior,
    last_axes,
    prefix,
    window_counts,
    window_view,
)
from undertow._src.arrays.quiet import quiet

_COLUMN_BYTES = 1 << 21  # columns lowered at a time: what a core's caches hold
_COLUMN_COUNT = 3072  # and no more of them than this: BLAS has faster products for few short columns
_MOST_PHASES = 16  # of a strided convolution's input that are convolved one by one
_WRAP_ALLOWANCE = 1.15  # wrapping windows are computed along up to this share of the true ones


class _Lowering:
    """Lowers blocks of images to columns, with scratch buffers that the blocks share."""

    def __init__(self, x_shape: Sizes, dtype: np.dtype, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
                 wrap: bool = True) -> None:  # fmt: skip
        self.batch, self.channels, *size = x_shape
        self.size: Sizes = tuple(size)
        self.kernel, self.stride, self.padding, self.dilation = kernel, stride, padding, dilation
        self.counts = window_counts(self.size, kernel, stride, padding, dilation)
        self.padded = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
        self.grid = self.counts
        if wrap and all(s == 1 for s in stride):
            wrapped = self.counts[:1] + self.padded[1:]
            if math.prod(wrapped) <= _WRAP_ALLOWANCE * math.prod(self.counts):
                self.grid = wrapped
        per_row = self.channels * math.prod(kernel) * math.prod(self.grid[1:]) * dtype.itemsize
        per_image = max(1, per_row * self.grid[0])
        together = min(_COLUMN_BYTES // per_image, _COLUMN_COUNT // max(1, math.prod(self.grid)))
        self.images = min(max(1, together), max(1, self.batch))
        self.rows = self.grid[0] if self.images > 1 else min(self.grid[0], max(1, 4 * _COLUMN_BYTES // max(1, per_row)))
        # The last wrapping windows of the last channel reach past the end of the padded images.
        overhang = sum(d * (k - 1) for k, d in zip(kernel[1:], dilation[1:], strict=True))
        self.image_scratch = np.zeros(self.channels * self.images * math.prod(self.padded) + overhang, dtype)
        self.column_scratch = np.empty(
            self.channels * math.prod(kernel) * self.images * self.rows * math.prod(self.grid[1:]), dtype
        )
        self.views: dict[int, tuple[Array, Array]] = {}  # by block size: part of the scratch, windows

    def image_blocks(self) -> list[slice]:
        return list(chunks(self.batch, self.images))

    def row_blocks(self) -> list[slice]:
        return list(chunks(self.grid[0], max(1, self.rows)))

    def padded_images(self, count: int) -> Array:
        """Return scratch (channel, image, *padded), whose border is zero."""
        return prefix(self.image_scratch, (self.channels, count, *self.padded))

    def windows(self, images: Array) -> Array:
        """Return the view (channel, *kernel, image, *grid) of padded images (channel, image, *padded)."""
        view = window_view(images, self.kernel, self.stride, self.dilation, self.grid)
        rank = len(self.kernel)
        return view.transpose(0, *range(2, 2 + rank), 1, *range(2 + rank, 2 + 2 * rank))

    def load(self, x: Array) -> Array:
        """Return the windows of a block of images (image, channel, *size)."""
        if len(x) not in self.views:
            images = self.padded_images(len(x))
            self.views[len(x)] = images[last_axes(*interior(self.padding, self.size))], self.windows(images)
        inside, windows = self.views[len(x)]
        inside[...] = x.swapaxes(0, 1)
        return windows

    def column_buffer(self, count: int, rows: slice) -> Array:
        """Return scratch (channel, *kernel, image, rows, *grid[1:])."""
        shape = (self.channels, *self.kernel, count, rows.stop - rows.start, *self.grid[1:])
        return prefix(self.column_scratch, shape)

    def rows_of(self, windows: Array, rows: slice) -> Array:
        return windows[last_axes(rows, *(slice(None),) * (len(self.kernel) - 1))]

    def true_windows(self, values: Array) -> Array:
        """Return the part of (…, *grid) that does not wrap."""
        return values[last_axes(slice(None), *(slice(c) for c in self.counts[1:]))]


def _compute_dtype(*arrays: Array) -> np.dtype:
    """Return the dtype to compute in: BLAS has no half precision, which is computed in float32 and rounded once."""
    dtype = np.result_type(*arrays)
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


@quiet
def conv(
    x: Array, w: Array, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, bias: Array | None = None
) -> Array:
    """y[n, o, p] = bias[o] + Σ_{c, k} w[o, c, k] x[n, c, p·stride + k·dilation − padding], c running over o's group."""
    dtype = _compute_dtype(x, w)
    batch, channels, *size = x.shape
    kernel = w.shape[2:]
    weights = w.astype(dtype, copy=False).reshape(groups, w.shape[0] // groups, -1)
    if _is_pointwise(kernel, stride, padding) and math.prod(size) >= 64:
        pixels = np.ascontiguousarray(x, dtype).reshape(batch, groups, channels // groups, math.prod(size))
        product = np.matmul(weights, pixels)
        if bias is not None:
            product += bias.reshape(groups, -1, 1)
        return product.reshape(batch, w.shape[0], *size).astype(x.dtype, copy=False)
    lowering = _Lowering(x.shape, dtype, kernel, stride, padding, dilation)
    out = _new_images((batch, w.shape[0], *lowering.counts), x)
    for block in lowering.image_blocks():
        windows = lowering.load(x[block])
        count = block.stop - block.start
        for rows in lowering.row_blocks():
            columns = lowering.column_buffer(count, rows)
            np.copyto(columns, lowering.rows_of(windows, rows))
            product = np.matmul(weights, columns.reshape(groups, weights.shape[2], -1))
            if bias is not None:
                product += bias.reshape(groups, -1, 1)
            product = product.reshape(w.shape[0], count, rows.stop - rows.start, *lowering.grid[1:])
            out[block, :, rows] = lowering.true_windows(product).swapaxes(0, 1)
    return out


@quiet
def conv_weight_grad(
    g: Array, x: Array, weight_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """∂w[o, c, k] = Σ_{n, p} g[n, o, p] x[n, c, p·stride + k·dilation − padding]."""
    args = (g, x, weight_shape, stride, padding, dilation, groups)
    grad = _weight_grad(*args, wrap=True)
    if np.isnan(grad).any():  # zero times an inf that a wrapping window saw is nan: sum the true windows alone
        grad = _weight_grad(*args, wrap=False)
    return grad.reshape(weight_shape).astype(g.dtype, copy=False)


def _weight_grad(g: Array, x: Array, weight_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
                 wrap: bool) -> Array:  # fmt: skip
    dtype = _compute_dtype(g, x)
    lowering = _Lowering(x.shape, dtype, weight_shape[2:], stride, padding, dilation, wrap)
    outputs = weight_shape[0]
    grad = np.zeros((groups, math.prod(weight_shape[1:]), outputs // groups), dtype)  # BLAS is faster this way round
    scratch = np.zeros(outputs * lowering.images * lowering.rows * math.prod(lowering.grid[1:]), dtype)
    for block in lowering.image_blocks():
        windows = lowering.load(x[block])
        count = block.stop - block.start
        for rows in lowering.row_blocks():
            columns = lowering.column_buffer(count, rows)
            np.copyto(columns, lowering.rows_of(windows, rows))
            values = prefix(scratch, (outputs, count, rows.stop - rows.start, *lowering.grid[1:]))
            if lowering.grid != lowering.counts and values.size != scratch.size:
                values[...] = 0  # a shorter last block has its wrapping windows elsewhere
            lowering.true_windows(values)[...] = g[block, :, rows].swapaxes(0, 1)
            flat = values.reshape(groups, grad.shape[2], -1)
            grad += np.matmul(columns.reshape(groups, grad.shape[1], -1), flat.swapaxes(1, 2))
    return np.ascontiguousarray(grad.swapaxes(1, 2))


@quiet
def conv_input_grad(
    g: Array, w: Array, input_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """∂x[n, c, i] = Σ w[o, c, k] g[n, o, p] over i = p·stride + k·dilation − padding: the transposed convolution."""
    kernel = w.shape[2:]
    mirrored = tuple(d * (k - 1) - p for k, p, d in zip(kernel, padding, dilation, strict=True))
    if all(s == 1 for s in stride) and min(mirrored, default=0) >= 0:
        return conv(g, _mirror(w, groups), stride, mirrored, dilation, groups)
    overlapping = all(k > s for k, s in zip(kernel, stride, strict=True)) and all(d == 1 for d in dilation)
    if overlapping and math.prod(stride) <= _MOST_PHASES and w.shape[0] <= 2 * input_shape[1]:
        return _input_grad_by_phases(g, w, input_shape, stride, padding, groups)
    dtype = _compute_dtype(g, w)
    lowering = _Lowering(input_shape, dtype, kernel, stride, padding, dilation, wrap=False)
    weights = w.astype(dtype, copy=False).reshape(groups, w.shape[0] // groups, -1).swapaxes(1, 2)
    out = _new_images(input_shape, g)
    for block in lowering.image_blocks():
        count = block.stop - block.start
        images = lowering.padded_images(count)
        images[...] = 0
        windows = lowering.windows(images)
        for rows in lowering.row_blocks():
            columns = lowering.column_buffer(count, rows)
            values = np.ascontiguousarray(g[block, :, rows].swapaxes(0, 1), dtype)
            values = values.reshape(groups, w.shape[0] // groups, -1)
            np.matmul(weights, values, out=columns.reshape(groups, weights.shape[1], -1))
            add_windows(lowering.rows_of(windows, rows), columns, 1 + len(kernel), kernel)
        out[block] = images[last_axes(*interior(padding, lowering.size))].swapaxes(0, 1)
    return out


def _input_grad_by_phases(g: Array, w: Array, input_shape: Sizes, stride: Sizes, padding: Sizes, groups: int) -> Array:
    """Compute conv_input_grad where windows overlap, as convolutions of stride 1.

    Elements i with the same (i + padding) mod stride see the same part of the kernel, so that each such phase is a
    convolution of stride 1, and nothing has to be accumulated.
    """
    out = _new_images(input_shape, g)
    out[...] = 0
    ones = (1,) * len(stride)
    for phase in itertools.product(*map(range, stride)):
        part = w[last_axes(*[slice(r, None, s) for r, s in zip(phase, stride, strict=True)])]
        spread = conv(g, _mirror(part, groups), ones, tuple(n - 1 for n in part.shape[2:]), ones, groups)
        source, target = [], []
        for n, m, r, s, p in zip(input_shape[2:], spread.shape[2:], phase, stride, padding, strict=True):
            first = -((r - p) // s)  # the first index of the phase that is not padding
            begin = first * s + r - p
            count = max(0, min(m - first, -((begin - n) // s)))
            source.append(slice(first, first + count))
            target.append(slice(begin, begin + count * s, s))
        out[last_axes(*target)] = spread[last_axes(*source)]
    return out


def _new_images(shape: Sizes, like: Array) -> Array:
    """Allocate images, with their channels last if those of `like` are."""
    if not has_channels_last(like):
        return np.empty(shape, like.dtype)
    batch, channels, *size = shape
    return np.moveaxis(np.empty((batch, *size, channels), like.dtype), -1, 1)


def _mirror(w: Array, groups: int) -> Array:
    """Return the weights of the stride-1 adjoint: kernel reversed, inputs and outputs exchanged within each group."""
    per_group = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    reverse = (slice(None, None, -1),) * (w.ndim - 2)
    return np.ascontiguousarray(per_group[last_axes(*reverse)]).reshape(
        groups * w.shape[1], w.shape[0] // groups, *w.shape[2:]
    )


def _is_pointwise(kernel: Sizes, stride: Sizes, padding: Sizes) -> bool:
    return all(k == 1 for k in kernel) and all(s == 1 for s in stride) and not any(padding)
