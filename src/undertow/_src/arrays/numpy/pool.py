"""Pooling over the last axes of an array, and the adjoint of each pooling.

Leading axes are free (batch and channel, or channel alone): a plane is what the last `len(kernel)` axes span. Max
pooling returns PyTorch's flat index within the plane along with each value, so its gradient is `add_to_planes`, the
gradient of that is `take_from_planes`, and max-unpooling is `put_in_planes`. Average pooling is separable: a windowed
sum along one axis after another, then one division.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from undertow._src.arrays.numpy.rows import row_sums
from undertow._src.arrays.numpy.windows import Array, Sizes, chunks, kernel_offsets, last_axes, pad_spatial, window_view
from undertow._src.arrays.quiet import quiet

_PLANE_BLOCK_BYTES = 1 << 18  # outputs pooled at a time, so that the running maximum stays in the cache


def pool_counts(
    size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool = False
) -> Sizes:
    """Return how many windows each axis has; ceil_mode adds a partial last one unless it starts in the right padding."""
    counts = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1
        counts.append(count)
    return tuple(counts)


def _planes(x: Array, rank: int) -> tuple[Array, Sizes, Sizes]:
    """Return x as (plane, *size), with its leading shape and its size."""
    lead, size = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    return x.reshape(math.prod(lead), *size), lead, size


def _every_plane(place: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the index of one position, or one window, in every plane."""
    return (slice(None), *place)


# --- max pooling --------------------------------------------------------------------------------------------------


@quiet
def max_pool(
    x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool = False
) -> tuple[Array, Array]:
    """Each window's maximum and its flat index in the plane; the first of equals wins, and nan is larger than all."""
    x, lead, size = _planes(x, len(kernel))
    counts = pool_counts(size, kernel, stride, padding, dilation, ceil_mode)
    overhang = tuple(
        max(0, (c - 1) * s + d * (k - 1) + 1 - n - p)
        for c, n, k, s, p, d in zip(counts, size, kernel, stride, padding, dilation, strict=True)
    )
    padded = pad_spatial(x, padding, overhang, _lowest(x.dtype))
    windows = window_view(padded, kernel, stride, dilation, counts)
    values = np.empty((len(x), *counts), x.dtype)
    choice = np.empty(values.shape, np.min_scalar_type(math.prod(kernel)))
    default = first_inside(kernel, stride, padding, dilation, counts)
    for block in chunks(len(x), max(1, _PLANE_BLOCK_BYTES // max(1, math.prod(counts) * x.dtype.itemsize))):
        choice[block] = default
        _max_over_kernel(windows[block], kernel, values[block], choice[block])
    indices = _flat_indices(choice, size, kernel, stride, padding, dilation, counts)
    return values.reshape(*lead, *counts), indices.reshape(*lead, *counts)


def _max_over_kernel(windows: Array, kernel: Sizes, values: Array, choice: Array) -> None:
    """Reduce (plane, *kernel, *counts) into values, and the maximum's position in the kernel into choice."""
    for position, offset in enumerate(kernel_offsets(kernel)):
        candidate = windows[_every_plane(offset)]
        if position == 0:
            values[...] = candidate
        else:
            better = np.greater(candidate, values).astype(choice.dtype)
            better *= choice.dtype.type(position)
            np.maximum(choice, better, out=choice)  # positions only grow, so the latest improvement is the largest
            np.maximum(values, candidate, out=values)  # propagates a nan
    if values.dtype.kind not in "iub" and np.isnan(values).any():
        for position, offset in enumerate(kernel_offsets(kernel)):  # the last nan wins
            np.copyto(choice, position, where=np.isnan(windows[_every_plane(offset)]))


def _lowest(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def first_inside(kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes) -> Array:
    """Return each window's first kernel position that is not padding: its result when the whole window is −inf."""
    position: Array = np.zeros((), np.intp)
    for k, s, p, d, c in zip(kernel, stride, padding, dilation, counts, strict=True):
        first = -((np.arange(c) * s - p).clip(max=0) // d)  # ⌈(p − o·s) / d⌉ where that is positive
        position = position[..., None] * k + first
    return position


def _flat_indices(choice: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
                  counts: Sizes) -> Array:  # fmt: skip
    """Return kernel positions (plane, *counts) as flat indices into a plane of `size`."""
    corner: Array = np.zeros((), np.int64)
    inside: Array = np.zeros((), np.int64)
    for n, k, s, p, d, c in zip(size, kernel, stride, padding, dilation, counts, strict=True):
        corner = corner[..., None] * n + (np.arange(c) * s - p)
        inside = inside[..., None] * n + np.arange(k) * d
    indices: Array = np.take(inside.reshape(-1), choice)
    indices += corner
    return indices


def adaptive_edges(n: int, count: int) -> tuple[list[int], list[int]]:
    """Return where each of `count` adaptive windows over n elements starts and ends: ⌊i·n/count⌋ and ⌈(i+1)·n/count⌉."""
    return [i * n // count for i in range(count)], [-(-(i + 1) * n // count) for i in range(count)]


@quiet
def adaptive_max_pool(x: Array, counts: Sizes) -> tuple[Array, Array]:
    """Max-pool over adaptive windows, `counts` of them; return values and flat indices."""
    rank = len(counts)
    if all(c and n % c == 0 for n, c in zip(x.shape[x.ndim - rank :], counts, strict=True)):
        kernel = tuple(n // c for n, c in zip(x.shape[x.ndim - rank :], counts, strict=True))
        if 0 < math.prod(kernel) <= 64:
            return max_pool(x, kernel, kernel, (0,) * rank, (1,) * rank)
    x, lead, size = _planes(x, rank)
    values = np.empty((len(x), *counts), x.dtype)
    # The elements that a window reads along each axis: as many as the longest does; a shorter one repeats its last.
    taps = []
    for axis, (n, c) in enumerate(zip(size, counts, strict=True)):
        starts, ends = np.array(adaptive_edges(n, c))
        along = np.minimum(starts + np.arange((ends - starts).max(initial=0))[:, None], ends - 1)
        taps.append(along.reshape([-1 if a == axis else c if a == rank + axis else 1 for a in range(2 * rank)]))
    kernel = tuple(along.shape[axis] for axis, along in enumerate(taps))
    choice = np.zeros(values.shape, np.min_scalar_type(math.prod(kernel)))
    if values.size:
        _max_over_kernel(x[_every_plane(tuple(taps))], kernel, values, choice)
    places: Array = np.zeros((), np.int64)
    for n, along in zip(size, taps, strict=True):
        places = places * n + along
    indices = np.take_along_axis(places.reshape(1, -1, *counts), choice[:, None].astype(np.intp), 1)[:, 0]
    return values.reshape(*lead, *counts), indices.reshape(*lead, *counts)


# --- reading and writing planes by flat index ---------------------------------------------------------------------


def _flat_across_planes(indices: Array, rank: int, plane_size: int) -> Array:
    """Return indices within planes (*lead, *counts) as (plane, counts) indices into all planes laid end to end."""
    within, _, counts = _planes(indices, rank)
    within = within.reshape(len(within), math.prod(counts))
    return within + np.arange(0, len(within) * plane_size, plane_size or 1)[: len(within), None]


def take_from_planes(x: Array, indices: Array, rank: int) -> Array:
    """out[…, o] = x[…, indices[…, o]], the last `rank` axes of both read flat; the adjoint of add_to_planes."""
    flat = _flat_across_planes(indices, rank, math.prod(x.shape[x.ndim - rank :]))
    return np.take(x.reshape(-1), flat).reshape(indices.shape)


@quiet
def add_to_planes(values: Array, indices: Array, size: Sizes, distinct: bool = False) -> Array:
    """Planes of `size` with out[…, indices[…, o]] += values[…, o]; the adjoint of take_from_planes.

    `distinct` promises that no index repeats within a plane (windows that do not overlap), which is faster.
    """
    if distinct:
        return put_in_planes(values, indices, size)
    rank = len(size)
    out = np.zeros((*values.shape[: values.ndim - rank], *size), values.dtype)
    flat = _flat_across_planes(indices, rank, math.prod(size))
    np.add.at(out.reshape(-1), flat.reshape(-1), np.ascontiguousarray(values).reshape(-1))
    return out


def max_pool_grad(
    g: Array, indices: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> Array:
    """Return g at the indices that max_pool chose, accumulated where windows overlap."""
    return add_to_planes(g, indices, size, windows_are_disjoint(kernel, stride, dilation))


def windows_are_disjoint(kernel: Sizes, stride: Sizes, dilation: Sizes) -> bool:
    """Whether no two windows overlap."""
    return all(s > d * (k - 1) for k, s, d in zip(kernel, stride, dilation, strict=True))


def put_in_planes(values: Array, indices: Array, size: Sizes) -> Array:
    """Planes of `size`, zero but for out[…, indices[…, o]] = values[…, o]: max-unpooling."""
    rank = len(size)
    out = np.zeros((*values.shape[: values.ndim - rank], *size), values.dtype)
    flat = _flat_across_planes(indices, rank, math.prod(size))
    out.reshape(-1)[flat] = values.reshape(flat.shape)
    return out


# --- average pooling ----------------------------------------------------------------------------------------------


def _along(axis: int, part: slice) -> tuple[Any, ...]:
    """Return the index that takes `part` of a negative axis and all of the others."""
    return last_axes(part, *(slice(None),) * (-1 - axis))


def _aligned(n: int, k: int, s: int, p: int, c: int) -> Iterator[tuple[slice, slice]]:
    """Yield for each kernel position the windows that have an element there, and those elements."""
    for position in range(k):
        first = max(0, -((position - p) // s))
        last = min(c - 1, (n - 1 + p - position) // s)
        if first <= last:
            begin = first * s - p + position
            yield slice(first, last + 1), slice(begin, begin + (last - first) * s + 1, s)


def _sum_windows(x: Array, axis: int, k: int, s: int, p: int, c: int) -> Array:
    """Along one axis, out[o] = Σ x[o·s − p + i] for 0 ≤ i < k, where that is inside x."""
    n = x.shape[axis]
    if s == k and p == 0 and n == c * k and k >= 8:  # windows tile the axis: one reduction
        split = x.ndim + axis
        return np.add.reduce(x.reshape(*x.shape[:split], c, k, *x.shape[split + 1 :]), axis=split + 1)
    out: Array = np.zeros((*x.shape[: x.ndim + axis], c, *x.shape[x.ndim + axis + 1 :]), x.dtype)
    for windows, elements in _aligned(n, k, s, p, c):
        target = out[_along(axis, windows)]
        np.add(target, x[_along(axis, elements)], out=target)
    return out


def _spread_windows(g: Array, axis: int, k: int, s: int, p: int, n: int) -> Array:
    """Return the adjoint of _sum_windows: along one axis of n elements, out[o·s − p + i] += g[o]."""
    out: Array = np.zeros((*g.shape[: g.ndim + axis], n, *g.shape[g.ndim + axis + 1 :]), g.dtype)
    for windows, elements in _aligned(n, k, s, p, g.shape[axis]):
        target = out[_along(axis, elements)]
        np.add(target, g[_along(axis, windows)], out=target)
    return out


def divisor_of(size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, counts: Sizes, count_include_pad: bool,
             divisor_override: int | None) -> Array | int:  # fmt: skip
    """Return the divisor of each window's sum: a number where all are equal, else an array (*counts)."""
    if divisor_override is not None:
        return divisor_override
    lengths = []
    for n, k, s, p, c in zip(size, kernel, stride, padding, counts, strict=True):
        start = np.arange(c) * s - p
        end = np.minimum(start + k, n + p)
        lengths.append(end - start if count_include_pad else np.minimum(end, n) - np.maximum(start, 0))
    return _common(reduce(np.multiply.outer, lengths))


def _common(values: Array) -> Array | int:
    """Return a constant array as its one value."""
    return int(values.flat[0]) if values.size and (values == values.flat[0]).all() else values


def _in_float32(pooling: Callable[..., Array], x: Array, *args: Any) -> Array:
    """Run a sum in float32 for half-precision input, and round once."""
    return pooling(x.astype(np.float32), *args).astype(x.dtype)


@quiet
def avg_pool(
    x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """Each window's mean, Σ window / divisor."""
    if x.dtype.itemsize < 4 and x.dtype.kind not in "iub":
        return _in_float32(avg_pool, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    rank = len(kernel)
    size = x.shape[x.ndim - rank :]
    if kernel == size and not any(padding) and divisor_override is None and x.dtype.kind == "f":
        return adaptive_avg_pool(x, (1,) * rank)
    counts = pool_counts(size, kernel, stride, padding, (1,) * rank, ceil_mode)
    divisor = divisor_of(size, kernel, stride, padding, counts, count_include_pad, divisor_override)
    for axis, k, s, p, c in zip(range(-rank, 0), kernel, stride, padding, counts, strict=True):
        x = _sum_windows(x, axis, k, s, p, c)
    return np.divide(x, divisor, out=x, casting="unsafe")  # unsafe: integer sums are divided and truncated


@quiet
def avg_pool_grad(
    g: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """Return the adjoint of avg_pool over planes of `size`: each window's gradient, divided, at each of its elements."""
    if g.dtype.itemsize < 4:
        return _in_float32(avg_pool_grad, g, size, kernel, stride, padding, count_include_pad, divisor_override)
    rank = len(kernel)
    if kernel == size and not any(padding) and divisor_override is None:
        return adaptive_avg_pool_grad(g, size)
    counts = g.shape[g.ndim - rank :]
    g = g / np.asarray(divisor_of(size, kernel, stride, padding, counts, count_include_pad, divisor_override), g.dtype)
    for axis, k, s, p, n in zip(range(-1, -1 - rank, -1), kernel[::-1], stride[::-1], padding[::-1], size[::-1],
                                strict=True):  # fmt: skip
        g = _spread_windows(g, axis, k, s, p, n)
    return g


def adaptive_divisor(size: Sizes, counts: Sizes) -> Array:
    lengths = []
    for n, c in zip(size, counts, strict=True):
        starts, ends = adaptive_edges(n, c)
        lengths.append(np.subtract(ends, starts))
    return np.asarray(reduce(np.multiply.outer, lengths))


@quiet
def adaptive_avg_pool(x: Array, counts: Sizes) -> Array:
    """Average over adaptive windows, `counts` of them."""
    if x.dtype.itemsize < 4:
        return _in_float32(adaptive_avg_pool, x, counts)
    rank = len(counts)
    size = x.shape[x.ndim - rank :]
    if all(c == 1 for c in counts):  # the mean of the whole plane
        planes, lead, _ = _planes(x, rank)
        total = row_sums(planes.reshape(len(planes), math.prod(size)))
        return np.divide(total, math.prod(size), out=total).reshape(*lead, *counts)
    if all(c and n and n % c == 0 for n, c in zip(size, counts, strict=True)):
        kernel = tuple(n // c for n, c in zip(size, counts, strict=True))
        return avg_pool(x, kernel, kernel, (0,) * rank)
    np.empty((*x.shape[: x.ndim - rank], *counts), x.dtype)  # raises at once if there is not enough memory
    for axis, n, c in zip(range(-rank, 0), size, counts, strict=True):
        sums = np.empty((*x.shape[: x.ndim + axis], c, *x.shape[x.ndim + axis + 1 :]), x.dtype)
        for i, (start, end) in enumerate(zip(*adaptive_edges(n, c), strict=True)):
            window = x[_along(axis, slice(start, end))]
            np.add.reduce(window, axis=axis, keepdims=True, out=sums[_along(axis, slice(i, i + 1))])
        x = sums
    x /= adaptive_divisor(size, counts).astype(x.dtype)
    return x


@quiet
def adaptive_avg_pool_grad(g: Array, size: Sizes) -> Array:
    """Return the adjoint of adaptive_avg_pool over planes of `size`."""
    if g.dtype.itemsize < 4:
        return _in_float32(adaptive_avg_pool_grad, g, size)
    rank = len(size)
    counts = g.shape[g.ndim - rank :]
    g = g / adaptive_divisor(size, counts).astype(g.dtype)
    for axis, n, c in zip(range(-1, -1 - rank, -1), size[::-1], counts[::-1], strict=True):
        spread = np.zeros((*g.shape[: g.ndim + axis], n, *g.shape[g.ndim + axis + 1 :]), g.dtype)
        for i, (start, end) in enumerate(zip(*adaptive_edges(n, c), strict=True)):
            spread[_along(axis, slice(start, end))] += g[_along(axis, slice(i, i + 1))]
        g = spread
    return g
