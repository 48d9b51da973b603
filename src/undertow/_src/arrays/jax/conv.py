"""Convolution on JAX, over any number of spatial axes, its two adjoints, and windows as columns.

Images come with their channels on axis 1, as in PyTorch, and are convolved with their channels last, which XLA does
fastest on every device. The transpositions around neighbouring layers cancel (see layout.py).

Weights are transposed for the CPU only. On a GPU they keep PyTorch's order and XLA is told which axis is which: it chooses
a layout for cuDNN, and recognises a gradient of a strided convolution by its reversed kernel if nothing comes after the
reversal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.jax.tracing import platform_of
from undertow._src.arrays.numpy.windows import window_counts

Array = Any
Sizes = tuple[int, ...]

_FEW = 32  # inputs per output up to which a convolution on a CPU, or its input's gradient, is faster as a product


def _channels_last(x: Array) -> Array:
    return jnp.moveaxis(x, 1, -1)


def _channels_first(x: Array) -> Array:
    return jnp.moveaxis(x, -1, 1)


def _order(lhs: str, rhs: str, out: str, rank: int) -> tuple[str, str, str]:
    """Return JAX's names of axes, with a * for the spatial ones."""
    spatial = "DHW"[3 - rank :]
    return lhs.replace("*", spatial), rhs.replace("*", spatial), out.replace("*", spatial)


def _exact(x: Array) -> dict[str, Any]:
    """Return the dtype of sums where XLA has to be told: float32 for half precision, the own type for integers.

    On a GPU, cuDNN adds up half precision in float32 anyway. Asked for a float32 result, XLA would convert the images
    and run the whole convolution in float32, at half the speed.
    """
    is_half = x.dtype.itemsize < 4 and x.dtype.kind in "fV"
    return {"preferred_element_type": np.float32} if is_half and platform_of(x) == "cpu" else {}


def conv(
    x: Array, w: Array, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, bias: Array | None = None
) -> Array:
    """y[n, o, p] = bias[o] + Σ_{c, k} w[o, c, k] x[n, c, p·stride + k·dilation − padding], c running over o's group."""
    counts = window_counts(x.shape[2:], w.shape[2:], stride, padding, dilation)
    if _may_be_product(x, groups) and (_has_few(w.shape) or _is_product(x, w.shape, x.shape[0] * math.prod(counts))):
        columns = _columns(x, w.shape[2:], stride, padding, dilation)
        out = lax.dot_general(columns, w.reshape(w.shape[0], -1), (((1,), (1,)), ((), ())))
        out = out.reshape(x.shape[0], *counts, w.shape[0])
        return _channels_first(out if bias is None else out + bias)
    order = "OI*"
    if platform_of(x) == "cpu":
        w, order = jnp.transpose(w, (*range(2, w.ndim), 1, 0)), "*IO"
    out = lax.conv_general_dilated(
        _channels_last(x), w, stride, [(p, p) for p in padding], rhs_dilation=dilation,
        dimension_numbers=_order("N*C", order, "N*C", len(stride)), feature_group_count=groups, **_exact(x),
    ).astype(x.dtype)  # fmt: skip
    return _channels_first(out if bias is None else out + bias)


def conv_input_grad(
    g: Array, w: Array, shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """∂x[n, c, i] = Σ w[o, c, k] g[n, o, p] over i = p·stride + k·dilation − padding: the transposed convolution."""
    kernel = w.shape[2:]
    if not g.size:
        return jnp.zeros(shape, g.dtype)
    if _may_be_product(g, groups) and (_has_few(w.shape) or _is_product(g, w.shape, g.size // w.shape[0])):
        rows = lax.dot(_channels_last(g).reshape(-1, w.shape[0]), w.reshape(w.shape[0], -1))
        columns = jnp.swapaxes(rows.reshape(g.shape[0], -1, rows.shape[1]), 1, 2)
        return fold(columns, shape[2:], kernel, stride, padding, dilation)
    widths = []
    for n, m, k, s, p, d in zip(shape[2:], g.shape[2:], kernel, stride, padding, dilation, strict=True):
        widths.append((d * (k - 1) - p, n - (s * (m - 1) + 1) + p))
    if platform_of(g) == "cpu":
        mirrored, order = jnp.transpose(_mirrored(w, groups), (*range(2, w.ndim), 1, 0)), "*IO"
    elif groups > 1:
        mirrored, order = _mirrored(w, groups), "OI*"
    else:
        mirrored, order = lax.rev(w, tuple(range(2, w.ndim))), "IO*"
    out = lax.conv_general_dilated(
        _channels_last(g), mirrored, (1,) * len(kernel), widths, lhs_dilation=stride, rhs_dilation=dilation,
        dimension_numbers=_order("N*C", order, "N*C", len(kernel)), feature_group_count=groups, **_exact(g),
    )  # fmt: skip
    return _channels_first(out.astype(g.dtype))


def _mirrored(w: Array, groups: int) -> Array:
    """Return the kernel reversed, inputs and outputs exchanged within each group."""
    outputs, inputs, *kernel = w.shape
    per_group = jnp.swapaxes(w.reshape(groups, outputs // groups, inputs, *kernel), 1, 2)
    return jnp.flip(per_group, tuple(range(3, 3 + len(kernel)))).reshape(groups * inputs, outputs // groups, *kernel)


def conv_weight_grad(
    g: Array, x: Array, shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """Return ∂w[o, c, k] = Σ_{n, p} g[n, o, p] x[n, c, p·stride + k·dilation − padding]: images and channels swap roles."""
    kernel = shape[2:]
    if not g.size or not x.size:
        return jnp.zeros(shape, g.dtype)
    if _may_be_product(g, groups) and _is_product(x, shape, g.size // shape[0]):
        columns = _columns(x, kernel, stride, padding, dilation)
        rows = _channels_last(g).reshape(-1, shape[0])
        return lax.dot_general(rows, columns, (((0,), (0,)), ((), ()))).reshape(shape)
    widths = []
    for n, m, k, s, p, d in zip(x.shape[2:], g.shape[2:], kernel, stride, padding, dilation, strict=True):
        widths.append((p, d * (k - 1) + s * (m - 1) + 1 - n - p))
    on_cpu = platform_of(g) == "cpu"
    out = lax.conv_general_dilated(
        _channels_last(x), _channels_last(g), dilation, widths, rhs_dilation=stride,
        dimension_numbers=_order("C*N", "I*O", "*NC" if on_cpu else "CN*", len(kernel)), batch_group_count=groups,
        **_exact(g),
    )  # fmt: skip
    if not on_cpu:
        return out.astype(g.dtype)
    return jnp.transpose(out.astype(g.dtype), (len(kernel) + 1, len(kernel), *range(len(kernel))))


# --- convolutions as products with columns, on a CPU


def _may_be_product(x: Array, groups: int) -> bool:
    return groups == 1 and x.dtype.itemsize >= 4 and x.size > 0 and platform_of(x) == "cpu"


def _is_product(image: Array, weight: Sizes, rows: int) -> bool:
    """Whether a product of so many rows is faster than XLA's convolution of an image with a kernel.

    The product takes weights as they are. XLA's convolution needs them transposed, which takes longer than the rest if
    weights are larger than columns. If the kernel is larger than the image, XLA exchanges the two, and has no fast code.
    """
    area = math.prod(weight[2:])
    return area == 1 or rows <= weight[0] or math.prod(image.shape[2:]) <= area


def _has_few(weight: Sizes) -> bool:
    """Whether so few inputs make an output that XLA's convolution would waste most of its width."""
    return math.prod(weight[1:]) <= _FEW


def _columns(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    """Return a row for every window of x, in the order of a weight's inputs."""
    counts = window_counts(x.shape[2:], kernel, stride, padding, dilation)
    frame = [(0, 0, 0), *[(p, p, 0) for p in padding], (0, 0, 0)]
    image = lax.optimization_barrier(_channels_last(x))  # transposed here, while it is still small
    padded = lax.pad(image, jnp.zeros((), x.dtype), frame)
    parts = []
    for at in offsets(kernel):
        starts = _times(at, dilation)
        stops = [start + (c - 1) * s + 1 for start, s, c in zip(starts, stride, counts, strict=True)]
        parts.append(lax.slice(padded, (0, *starts, 0), (x.shape[0], *stops, x.shape[1]), (1, *stride, 1)))
    return jnp.stack(parts, -1).reshape(x.shape[0] * math.prod(counts), -1)


def channel_sums(x: Array) -> Array:
    """Σ over every axis but axis 1, the channels."""
    return jnp.sum(x, (0, *range(2, x.ndim)))


# --- windows


def offsets(kernel: Sizes) -> Iterator[Sizes]:
    """Every position inside the kernel, last axis fastest."""
    return itertools.product(*map(range, kernel))


def window_part(x: Array, place: Sizes, stride: Sizes, counts: Sizes) -> Array:
    """Return the elements at one position of every window of an already padded x, whose last axes are spatial."""
    lead = x.ndim - len(place)
    starts = (0,) * lead + tuple(place)
    stops = x.shape[:lead] + tuple([at + (c - 1) * s + 1 for at, s, c in zip(place, stride, counts, strict=True)])
    return lax.slice(x, starts, stops, (1,) * lead + tuple(stride))


def spread_part(part: Array, place: Sizes, stride: Sizes, size: Sizes) -> Array:
    """Return the adjoint of `window_part`: elements at one position of every window, in planes of `size`."""
    lead, counts = part.ndim - len(place), part.shape[part.ndim - len(place) :]
    widths = [(0, 0, 0)] * lead + [
        (at, n - at - ((c - 1) * s + 1), s - 1) for at, s, c, n in zip(place, stride, counts, size, strict=True)
    ]
    return lax.pad(part, jnp.zeros((), part.dtype), widths)


def framed(x: Array, before: Sizes, after: Sizes, value: Any) -> Array:
    """Return x padded with a value around its last axes."""
    widths = [(0, 0, 0)] * (x.ndim - len(before)) + [(b, a, 0) for b, a in zip(before, after, strict=True)]
    return lax.pad(x, jnp.asarray(value, x.dtype), widths)


def unfold(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    """Return columns (batch, channel·kernel, windows) of every window of x (im2col); the adjoint of fold."""
    counts = window_counts(x.shape[2:], kernel, stride, padding, dilation)
    padded = framed(x, padding, padding, 0)
    parts = [window_part(padded, _times(at, dilation), stride, counts) for at in offsets(kernel)]
    return jnp.stack(parts, 2).reshape(x.shape[0], x.shape[1] * len(parts), math.prod(counts))


def fold(columns: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    """Sum columns (batch, channel·kernel, windows) back into images of `size` (col2im); the adjoint of unfold."""
    counts = window_counts(size, kernel, stride, padding, dilation)
    area = math.prod(kernel)
    parts = columns.reshape(columns.shape[0], columns.shape[1] // area, area, *counts)
    out = jnp.zeros((*parts.shape[:2], *size), columns.dtype)
    for number, at in enumerate(offsets(kernel)):
        place = tuple([n - p for n, p in zip(_times(at, dilation), padding, strict=True)])
        out = out + spread_part(parts[:, :, number], place, stride, size)
    return out


def _times(place: Sizes, dilation: Sizes) -> Sizes:
    return tuple([at * d for at, d in zip(place, dilation, strict=True)])
