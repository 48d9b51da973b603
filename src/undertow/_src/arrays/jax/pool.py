"""Pooling over the last axes of an array on JAX, and the adjoint of each pooling.

Pooling loops over positions in the window: the maximum or sum over a kernel is one over shifted, strided copies of the
array, which XLA fuses into a single loop and computes in the order of axes of its neighbours. XLA's own pooling and its
gradient (reduce-window, select-and-scatter) are many times slower on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.jax.conv import Array, Sizes, framed, offsets, spread_part, window_part
from undertow._src.arrays.jax.tracing import IN_BOUNDS, as_short_index, picked
from undertow._src.arrays.numpy.pool import adaptive_divisor, adaptive_edges, divisor_of, first_inside, pool_counts

_LARGE = 64  # kernel elements from which a window is gathered whole


# --- maxima


def _lowest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def _overhang(size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes) -> Sizes:
    """Return how far the last window reaches past the end of each axis."""
    return tuple(
        [
            max(0, (c - 1) * s + d * (k - 1) + 1 - n - p)
            for c, n, k, s, p, d in zip(counts, size, kernel, stride, padding, dilation, strict=True)
        ]
    )


def _places(at: Sizes, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes) -> Any:
    """Return the flat index in a plane of one position of every window."""
    flat: Any = np.zeros((), np.int32)
    for i, n, s, p, d, c in zip(at, size, stride, padding, dilation, counts, strict=True):
        flat = flat[..., None] * n + (np.arange(c, dtype=np.int32) * s - p + i * d)
    return flat.astype(np.int32)


def max_pool(
    x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool = False
) -> tuple[Array, Array]:
    """Each window's maximum and its flat index in the plane; the first of equals wins, and nan is larger than all."""
    rank = len(kernel)
    size = x.shape[x.ndim - rank :]
    counts = pool_counts(size, kernel, stride, padding, dilation, ceil_mode)
    geometry = (size, stride, padding, dilation, counts)
    if math.prod(kernel) >= _LARGE:
        places = np.stack([_places(at, *geometry) for at in offsets(kernel)], -1)
        inside = np.stack([_inside(at, *geometry) for at in offsets(kernel)], -1)
        return _max_of_places(x, places, inside, rank)
    padded = framed(x, padding, _overhang(size, kernel, stride, padding, dilation, counts), _lowest(x.dtype))
    values = choice = None
    for at in offsets(kernel):
        candidate = window_part(padded, tuple([i * d for i, d in zip(at, dilation, strict=True)]), stride, counts)
        if values is None:
            values = candidate
            choice = jnp.broadcast_to(_default_places(kernel, *geometry), values.shape)
            if x.dtype.kind not in "iub":
                choice = jnp.where(jnp.isnan(values), _places(at, *geometry), choice)
            continue
        better = candidate > values
        if x.dtype.kind not in "iub":
            better |= jnp.isnan(candidate)  # the last nan wins
        choice = jnp.where(better, _places(at, *geometry), choice)
        values = jnp.maximum(values, candidate)
    return values, choice.astype(np.int64)  # type: ignore[union-attr]


def _default_places(kernel: Sizes, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes) -> Any:
    """Return each window's first index that is not padding: it wins where nothing exceeds the lowest number."""
    first = first_inside(kernel, stride, padding, dilation, counts)
    every = np.stack([_places(at, size, stride, padding, dilation, counts) for at in offsets(kernel)], -1)
    return np.take_along_axis(every, np.asarray(first)[..., None], -1)[..., 0]


def _inside(at: Sizes, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, counts: Sizes) -> Any:
    """Return which windows have an element of the plane at this position, not padding."""
    inside: Any = np.ones((), bool)
    for i, n, s, p, d, c in zip(at, size, stride, padding, dilation, counts, strict=True):
        place = np.arange(c) * s - p + i * d
        inside = inside[..., None] & ((place >= 0) & (place < n))
    return inside


def _max_of_places(x: Array, places: Any, inside: Any, rank: int) -> tuple[Array, Array]:
    """Return the maximum over lists of flat indices (*counts, index), where inside, and its index."""
    lead, counts = x.shape[: x.ndim - rank], places.shape[:-1]
    flat = x.reshape(*lead, math.prod(x.shape[x.ndim - rank :]))
    safe = np.where(inside, places, 0).astype(np.int32)
    found = picked(flat, safe.reshape(-1), flat.ndim - 1).reshape(*lead, *places.shape)
    found = jnp.where(inside, found, jnp.asarray(_lowest(x.dtype), x.dtype))
    winner = lax.argmax(found, found.ndim - 1, np.int32)
    winner = jnp.where(jnp.max(found, -1) == _lowest(x.dtype), inside.argmax(-1).astype(np.int32), winner)
    if x.dtype.kind not in "iub":  # argmax finds the first nan, PyTorch the last
        last = places.shape[-1] - 1 - lax.argmax(jnp.flip(jnp.isnan(found), -1), found.ndim - 1, np.int32)
        winner = jnp.where(jnp.isnan(found).any(-1), last, winner)
    table = jnp.broadcast_to(safe, found.shape)
    chosen = jnp.take_along_axis(table, winner[..., None], -1, **IN_BOUNDS)[..., 0]
    return jnp.max(found, -1).reshape(*lead, *counts), chosen.astype(np.int64)


def max_pool_grad(
    g: Array, indices: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> Array:
    """Return g at the indices that max_pool chose, accumulated where windows overlap."""
    rank = len(kernel)
    counts = g.shape[g.ndim - rank :]
    chosen = as_short_index(indices)
    if tuple(kernel) == tuple(stride) and not any(padding) and all(d == 1 for d in dilation):
        if tuple([c * k for c, k in zip(counts, kernel, strict=True)]) == tuple(size):
            here = np.arange(math.prod(size), dtype=np.int32).reshape(size)
            return jnp.where(_tiled(chosen, kernel) == here, _tiled(g, kernel), 0)
    if math.prod(kernel) >= _LARGE:
        return add_to_planes(g, indices, size)
    out = jnp.zeros((*g.shape[: g.ndim - rank], *size), g.dtype)
    for at in offsets(kernel):
        part = jnp.where(chosen == _places(at, size, stride, padding, dilation, counts), g, 0)
        place = tuple([i * d - p for i, d, p in zip(at, dilation, padding, strict=True)])
        out = out + spread_part(part, place, stride, size)
    return out


def _tiled(x: Array, kernel: Sizes) -> Array:
    """Repeat every element of the last axes as a block of the kernel's size."""
    lead, counts = x.shape[: x.ndim - len(kernel)], x.shape[x.ndim - len(kernel) :]
    apart = [each for c in counts for each in (c, 1)]
    blocks = [each for c, k in zip(counts, kernel, strict=True) for each in (c, k)]
    whole = jnp.broadcast_to(x.reshape(*lead, *apart), (*lead, *blocks))
    return whole.reshape(*lead, *[c * k for c, k in zip(counts, kernel, strict=True)])


def adaptive_max_pool(x: Array, counts: Sizes) -> tuple[Array, Array]:
    """Max-pool over adaptive windows, `counts` of them; return values and flat indices."""
    rank = len(counts)
    size = x.shape[x.ndim - rank :]
    if all(c and n % c == 0 for n, c in zip(size, counts, strict=True)):
        kernel = tuple([n // c for n, c in zip(size, counts, strict=True)])
        if math.prod(kernel):
            return max_pool(x, kernel, kernel, (0,) * rank, (1,) * rank)
    places: Any = np.zeros((), np.int32)
    inside: Any = np.ones((), bool)
    for n, c in zip(size, counts, strict=True):
        starts, ends = (np.asarray(each) for each in adaptive_edges(n, c))
        along = starts[:, None] + np.arange((ends - starts).max(initial=0))
        places = (places[..., None, :, None] * n + along[:, None, :]).reshape(
            *places.shape[:-1], c, -1
        ) if places.ndim else along  # fmt: skip
        there = along < ends[:, None]
        inside = (inside[..., None, :, None] & there[:, None, :]).reshape(
            *inside.shape[:-1], c, -1
        ) if inside.ndim else there  # fmt: skip
    return _max_of_places(x, places, inside, rank)


# --- reading and writing planes by flat index


def _flat_planes(x: Array, rank: int) -> Array:
    return x.reshape(*x.shape[: x.ndim - rank], math.prod(x.shape[x.ndim - rank :]))


def take_from_planes(x: Array, indices: Array, rank: int) -> Array:
    """out[…, o] = x[…, indices[…, o]], the last `rank` axes of both read flat; the adjoint of add_to_planes."""
    places = as_short_index(_flat_planes(indices, rank))
    return jnp.take_along_axis(_flat_planes(x, rank), places, -1, **IN_BOUNDS).reshape(indices.shape)


def _written_planes(values: Array, indices: Array, size: Sizes, add: bool) -> Array:
    rank = len(size)
    places = as_short_index(_flat_planes(indices, rank))
    planes = places.reshape(-1, places.shape[-1])
    rows = np.arange(planes.shape[0], dtype=np.int32)[:, None]
    at = jnp.zeros((planes.shape[0], math.prod(size)), values.dtype).at[rows, planes]
    given = values.reshape(planes.shape)
    return (at.add(given) if add else at.set(given)).reshape(*values.shape[: values.ndim - rank], *size)


def add_to_planes(values: Array, indices: Array, size: Sizes, distinct: bool = False) -> Array:
    """Planes of `size` with out[…, indices[…, o]] += values[…, o]; the adjoint of take_from_planes."""
    return _written_planes(values, indices, size, add=True)


def put_in_planes(values: Array, indices: Array, size: Sizes) -> Array:
    """Planes of `size`, zero but for out[…, indices[…, o]] = values[…, o]: max-unpooling."""
    return _written_planes(values, indices, size, add=False)


# --- averages


def _sum_windows(x: Array, axis: int, k: int, s: int, p: int, c: int) -> Array:
    """Along one axis, out[o] = Σ x[o·s − p + i] for 0 ≤ i < k, where that is inside x."""
    n = x.shape[axis]
    if s == k and p == 0 and n == c * k:  # windows tile the axis
        return x.reshape(*x.shape[:axis], c, k, *x.shape[axis + 1 :]).sum(axis + 1)
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (p, max(0, (c - 1) * s + k - n - p), 0)
    padded = lax.pad(x, jnp.zeros((), x.dtype), widths)
    parts = [lax.slice_in_dim(padded, i, i + (c - 1) * s + 1, s, axis) for i in range(k)]
    return sum(parts[1:], parts[0])


def _spread_windows(g: Array, axis: int, k: int, s: int, p: int, n: int) -> Array:
    """Return the adjoint of _sum_windows: along one axis of n elements, out[o·s − p + i] += g[o]."""
    c = g.shape[axis]
    if s == k and p == 0 and n == c * k:
        stretched = jnp.broadcast_to(jnp.expand_dims(g, axis + 1), (*g.shape[: axis + 1], k, *g.shape[axis + 1 :]))
        return stretched.reshape(*g.shape[:axis], n, *g.shape[axis + 1 :])
    zero, parts = jnp.zeros((), g.dtype), []
    for i in range(k):
        widths = [(0, 0, 0)] * g.ndim
        widths[axis] = (i - p, n - (i - p) - ((c - 1) * s + 1), s - 1)
        parts.append(lax.pad(g, zero, widths))
    return sum(parts[1:], parts[0])


def _wide(x: Array) -> Array:
    """Return half precision as float32; sums are rounded once."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind not in "iub" else x


def avg_pool(
    x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """Each window's mean, Σ window / divisor."""
    rank, out = len(kernel), _wide(x)
    size = x.shape[x.ndim - rank :]
    counts = pool_counts(size, kernel, stride, padding, (1,) * rank, ceil_mode)
    divisor = divisor_of(size, kernel, stride, padding, counts, count_include_pad, divisor_override)
    for axis, k, s, p, c in zip(range(x.ndim - rank, x.ndim), kernel, stride, padding, counts, strict=True):
        out = _sum_windows(out, axis, k, s, p, c)
    return (out / jnp.asarray(divisor, out.dtype)).astype(x.dtype)


def avg_pool_grad(
    g: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """Return the adjoint of avg_pool over planes of `size`: each window's gradient, divided, at each of its elements."""
    rank = len(kernel)
    counts = g.shape[g.ndim - rank :]
    divisor = divisor_of(size, kernel, stride, padding, counts, count_include_pad, divisor_override)
    out = _wide(g)
    out = out / jnp.asarray(divisor, out.dtype)
    for axis, k, s, p, n in zip(range(g.ndim - rank, g.ndim), kernel, stride, padding, size, strict=True):
        out = _spread_windows(out, axis, k, s, p, n)
    return out.astype(g.dtype)


def _shares(n: int, c: int, dtype: np.dtype[Any]) -> Any:
    """Return (c, n): 1 where an adaptive window contains an element."""
    starts, ends = (np.asarray(each)[:, None] for each in adaptive_edges(n, c))
    return ((np.arange(n) >= starts) & (np.arange(n) < ends)).astype(dtype)


def adaptive_avg_pool(x: Array, counts: Sizes) -> Array:
    """Average over adaptive windows, `counts` of them."""
    rank, out = len(counts), _wide(x)
    size = x.shape[x.ndim - rank :]
    if all(c and n % c == 0 for n, c in zip(size, counts, strict=True)):
        kernel = tuple([n // c for n, c in zip(size, counts, strict=True)])
        return avg_pool(x, kernel, kernel, (0,) * rank)
    for axis, n, c in zip(range(x.ndim - rank, x.ndim), size, counts, strict=True):
        out = jnp.moveaxis(jnp.tensordot(out, _shares(n, c, out.dtype), ((axis,), (1,))), -1, axis)
    return (out / adaptive_divisor(size, counts).astype(out.dtype)).astype(x.dtype)


def adaptive_avg_pool_grad(g: Array, size: Sizes) -> Array:
    """Return the adjoint of adaptive_avg_pool over planes of `size`."""
    rank = len(size)
    counts = g.shape[g.ndim - rank :]
    if all(c and n % c == 0 for n, c in zip(size, counts, strict=True)):
        kernel = tuple([n // c for n, c in zip(size, counts, strict=True)])
        return avg_pool_grad(g, size, kernel, kernel, (0,) * rank)
    out = _wide(g)
    out = out / adaptive_divisor(size, counts).astype(out.dtype)
    for axis, n, c in zip(range(g.ndim - rank, g.ndim), size, counts, strict=True):
        out = jnp.moveaxis(jnp.tensordot(out, _shares(n, c, out.dtype), ((axis,), (0,))), -1, axis)
    return out.astype(g.dtype)
