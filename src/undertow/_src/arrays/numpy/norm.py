"""Layer norm and batch norm with their weights, and their gradients in closed form, a block of rows or images at a time.

NOTE: how it is fast. Sums over rows are products with a vector, which BLAS does faster than NumPy reduces. NumPy is
also slow to broadcast a column or a row over a matrix, so such terms are made by BLAS as a product of rank two and then
combined element by element. The passes over a block find it in the cache.

NOTE: far from zero. Sums of squares serve only values whose mean is small compared to their spread; others are centred
first.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from undertow._src.arrays import composed
from undertow._src.arrays.numpy import namespace
from undertow._src.arrays.numpy.order import laid_out_as
from undertow._src.arrays.numpy.rows import (
    Array,
    as_rows,
    channel_dots,
    channel_sums,
    channels_to_back,
    has_channels_last,
    row_blocks,
    row_dots,
    row_sums,
)

Needs = tuple[bool, ...]
_SMALL = 4096  # elements up to which calls cost more than arithmetic
_FAR = 4.0  # squared ratio of mean to standard deviation from which values are centred first


# --- over trailing axes -------------------------------------------------------------------------------------------


def layer_norm(
    x: Array, trailing: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """(x − mean) · rstd · weight + bias over the last `trailing` axes, with mean and rstd, whose last axes are 1."""
    if x.size <= _SMALL:
        return _small_layer_norm(x, trailing, weight, bias, eps)
    out = np.empty(x.shape, x.dtype)
    source, target = as_rows(x, trailing), as_rows(out, trailing)
    mean, rstd = np.empty((2, len(source)), x.dtype)
    columns = source.shape[1]
    slopes = _stacked(weight, bias, columns, x.dtype)
    for block in row_blocks(source):
        values, part = source[block], target[block]
        center, spread = _moments(values)
        mean[block] = center
        if (center * center > _FAR * spread).any():
            values = values - center[:, None]
            center, spread = _moments(values)
            mean[block] += center
        scale = rstd[block]
        np.sqrt(spread + eps, out=scale)
        np.reciprocal(scale, out=scale)
        np.matmul(_columns(scale, None), slopes, out=part)
        part *= values
        part += np.matmul(_columns(-center * scale, 1), slopes)
    shape = x.shape[: x.ndim - trailing] + (1,) * trailing
    return out, mean.reshape(shape), rstd.reshape(shape)


def _small_layer_norm(
    x: Array, trailing: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Compute layer_norm where calls cost more than arithmetic."""
    axes = tuple(range(x.ndim - trailing, x.ndim))
    columns = max(1, math.prod(x.shape[x.ndim - trailing :]))
    mean = np.add.reduce(x, axis=axes, keepdims=True) / columns
    out = _centred(x, mean, axes, columns)
    rstd = 1 / np.sqrt(np.add.reduce(out * out, axis=axes, keepdims=True) / columns + eps)
    out *= rstd
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return out, mean, rstd


def _centred(x: Array, mean: Array, axes: tuple[int, ...], columns: int) -> Array:
    """Return x − mean, minus the rounding error of the mean, which matters far from zero."""
    out = np.subtract(x, mean, order="C")
    out -= np.add.reduce(out, axis=axes, keepdims=True) / columns
    return out


def _small_layer_norm_grad(
    g: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, trailing: int, needs: Needs
) -> tuple[Array | None, Array | None, Array | None]:
    axes, rows = tuple(range(x.ndim - trailing, x.ndim)), tuple(range(x.ndim - trailing))
    columns = max(1, math.prod(x.shape[x.ndim - trailing :]))
    unit = _centred(x, mean, axes, columns)
    unit *= rstd
    out = None
    if needs[0]:
        out = g if weight is None else g * weight
        level = np.add.reduce(out, axis=axes, keepdims=True) / columns
        lean = np.add.reduce(out * unit, axis=axes, keepdims=True) / columns
        out = (out - level - unit * lean) * rstd
    return (
        out,
        np.add.reduce(g * unit, axis=rows) if needs[1] else None,
        np.add.reduce(g, axis=rows) if needs[2] else None,
    )


def layer_norm_grad(
    g: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, trailing: int, needs: Needs
) -> tuple[Array | None, Array | None, Array | None]:
    """Return the gradients of x, weight and bias.

    With u = (x − mean) · rstd and h = g · weight: ∂x = rstd · (h − mean(h) − u · mean(h · u)),  ∂weight = Σ g · u,
    ∂bias = Σ g  (means along rows, sums over them).
    """
    if x.size <= _SMALL:
        return _small_layer_norm_grad(g, x, mean, rstd, weight, trailing, needs)
    rows, values = as_rows(g, trailing), as_rows(x, trailing)
    columns = rows.shape[1]
    mean, rstd = mean.reshape(-1), rstd.reshape(-1)
    slopes = _stacked(weight, None, columns, g.dtype)
    plain = np.zeros((2, columns), g.dtype)
    plain[0] = 1
    out = np.empty(x.shape, g.dtype)
    target = as_rows(out, trailing)
    sums = np.zeros((3, columns), g.dtype)  # Σ g·x·rstd, Σ g·mean·rstd, Σ g
    for block in row_blocks(rows):
        part, data, here, center, scale = rows[block], values[block], target[block], mean[block], rstd[block]
        if (np.square(center * scale) > _FAR).any():
            data, center = data - center[:, None], np.zeros_like(center)
        product = np.multiply(part, data, out=here)
        if needs[1]:
            sums[0] += np.matmul(scale, product)
        if needs[1] or needs[2]:
            sums[1:] += np.matmul(np.stack([center * scale, np.ones_like(center)]), part)
        if not needs[0]:
            continue
        level = np.matmul(part, slopes[0]) / -columns
        tilt = (np.matmul(product, slopes[0]) / -columns - level * center) * scale * scale
        np.matmul(_columns(scale, None), slopes, out=here)
        here *= part
        tilted = np.matmul(_columns(tilt * scale, None), plain)
        tilted *= data
        here += tilted
        here += np.matmul(_columns((level - tilt * center) * scale, None), plain)
    shape = x.shape[x.ndim - trailing :]
    return (
        out if needs[0] else None,
        (sums[0] - sums[1]).reshape(shape) if needs[1] else None,
        sums[2].reshape(shape) if needs[2] else None,
    )


def _moments(rows: Array) -> tuple[Array, Array]:
    """Return mean and variance of each row, the variance from the sum of squares."""
    columns = max(1, rows.shape[1])
    mean = row_sums(rows) / columns
    return mean, np.maximum(row_dots(rows, rows) / columns - mean * mean, 0)


def _stacked(weight: Array | None, bias: Array | None, columns: int, dtype: np.dtype) -> Array:
    """Stack weight (or ones) above bias (or zeros), as a matrix of two rows."""
    both = np.zeros((2, columns), dtype)
    both[0] = 1 if weight is None else weight.reshape(-1)
    if bias is not None:
        both[1] = bias.reshape(-1)
    return both


def _columns(first: Array, second: int | None) -> Array:
    """Return a vector and ones or zeros, as a matrix of two columns."""
    both = np.zeros((len(first), 2), first.dtype)
    both[:, 0] = first
    if second:
        both[:, 1] = 1
    return both


def rms_norm(x: Array, trailing: int, weight: Array | None, eps: float) -> tuple[Array, Array]:
    """x · rstd · weight with rstd = 1/√(mean(x²) + eps) over the last `trailing` axes, and rstd, whose last axes are 1."""
    out = np.empty(x.shape, x.dtype)
    source, target = as_rows(x, trailing), as_rows(out, trailing)
    columns = max(1, source.shape[1])
    rstd = 1 / np.sqrt(row_dots(source, source) / columns + x.dtype.type(eps))
    slopes = _stacked(weight, None, source.shape[1], x.dtype)
    for block in row_blocks(source):
        np.matmul(_columns(rstd[block], None), slopes, out=target[block])
        target[block] *= source[block]
    return out, rstd.reshape(x.shape[: x.ndim - trailing] + (1,) * trailing)


def rms_norm_grad(
    g: Array, x: Array, rstd: Array, weight: Array | None, trailing: int, needs: Needs
) -> tuple[Array | None, Array | None]:
    """Return the gradients of x and weight.

    With h = g · weight: ∂x = rstd · (h − x · rstd² · mean(h · x)), ∂weight = Σ g·x·rstd.
    """
    rows, values = as_rows(g, trailing), as_rows(x, trailing)
    columns = rows.shape[1]
    rstd = rstd.reshape(-1)
    slopes, plain = _stacked(weight, None, columns, g.dtype), _stacked(None, None, columns, g.dtype)
    out = np.empty(x.shape, g.dtype)
    target = as_rows(out, trailing)
    weight_grad = np.zeros(columns, g.dtype)
    for block in row_blocks(rows):
        part, data, here, scale = rows[block], values[block], target[block], rstd[block]
        product = np.multiply(part, data, out=here)
        if needs[1]:
            weight_grad += np.matmul(scale, product)
        if not needs[0]:
            continue
        tilt = np.matmul(product, slopes[0]) / -columns * scale * scale * scale
        np.matmul(_columns(scale, None), slopes, out=here)
        here *= part
        tilted = np.matmul(_columns(tilt, None), plain)
        tilted *= data
        here += tilted
    return (out if needs[0] else None, weight_grad.reshape(x.shape[x.ndim - trailing :]) if needs[1] else None)


# --- per channel (axis 1) -----------------------------------------------------------------------------------------


def channel_moments(x: Array) -> tuple[Array, Array]:
    """Return mean and biased variance of each channel, over every axis but axis 1."""
    count = max(1, x.size // max(1, x.shape[1]))
    mean = channel_sums(x) / count
    variance = np.maximum(channel_dots(x, x) / count - mean * mean, 0)
    if (mean * mean > _FAR * variance).any():
        centred = x - _per_channel(mean, x.ndim)
        missed = channel_sums(centred) / count
        mean = mean + missed
        variance = np.maximum(channel_dots(centred, centred) / count - missed * missed, 0)
    return mean, variance


def channel_affine(x: Array, scale: Array, shift: Array | None, center: Array | None = None) -> Array:
    """Return (x − center) · scale + shift with one of each per channel. A center near zero is merged into the shift."""
    if center is not None and not (np.square(center * scale) > _FAR).any():
        shift = -center * scale if shift is None else shift - center * scale
        center = None
    out, last = _like_images(x)
    source, target = _as_images(x, last), _as_images(out, last)
    scales = _spread(scale, x, last)
    shifts = None if shift is None else _spread(shift, x, last)
    centers = None if center is None else _spread(center, x, last)
    for block in row_blocks(source):
        values = source[block] if centers is None else source[block] - centers
        np.multiply(values, scales, out=target[block])
        if shifts is not None:
            target[block] += shifts
    return out


def batch_norm_grad(
    g: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, training: bool, needs: Needs, eps: float
) -> tuple[Array | None, Array | None, Array | None]:
    """Return the gradients of x, weight and bias through (x − mean) · rstd · weight + bias.

    In training mean and rstd are x's own.
    """
    if (np.square(mean * rstd) > _FAR).any() and (training or needs[1]):
        x, mean = x - _per_channel(mean, x.ndim), np.zeros_like(mean)
    if has_channels_last(x):
        g = laid_out_as(x, g)
    total = channel_sums(g) if training or needs[2] else None
    lean = channel_dots(g, x) - mean * (channel_sums(g) if total is None else total) if training or needs[1] else None
    weight_grad = lean * rstd if needs[1] and lean is not None else None
    if not needs[0]:
        return None, weight_grad, total if needs[2] else None
    factor = rstd if weight is None else rstd * weight
    out, last = _like_images(x)
    rows, data, target = _as_images(g, last), _as_images(x, last), _as_images(out, last)
    factors = _spread(factor, x, last)
    if not training or lean is None or total is None:
        np.multiply(rows, factors, out=target)
        return out, weight_grad, total if needs[2] else None
    count = max(1, x.size // max(1, x.shape[1]))
    slope = lean * rstd * rstd * factor / -count
    slopes, shifts = _spread(slope, x, last), _spread(-slope * mean - total * factor / count, x, last)
    for block in row_blocks(rows):
        here = target[block]
        np.multiply(rows[block], factors, out=here)
        here += data[block] * slopes
        here += shifts
    return out, weight_grad, total if needs[2] else None


def _like_images(x: Array) -> tuple[Array, bool]:
    """Allocate images like x, channels last if those of x are; also return whether they are."""
    last = has_channels_last(x)
    batch, channels, *size = x.shape
    memory = np.moveaxis(np.empty((batch, *size, channels), x.dtype), -1, 1) if last else np.empty(x.shape, x.dtype)
    return memory, last


def _as_images(x: Array, last: bool) -> Array:
    """Return x as a matrix with a row per image, its elements in memory order if its channels are `last` or first."""
    return (channels_to_back(x) if last else x).reshape(x.shape[0], math.prod(x.shape[1:]))


def _spread(values: Array, x: Array, last: bool) -> Array:
    """Repeat one value per channel for each element of such a row."""
    area = math.prod(x.shape[2:])
    return np.tile(values, area) if last else np.repeat(values, area)


def _per_channel(values: Array, ndim: int) -> Array:
    return values.reshape((1, -1) + (1,) * (ndim - 2))


# --- per group of channels ----------------------------------------------------------------------------------------

group_norm, group_norm_grad = partial(composed.group_norm, namespace), partial(composed.group_norm_grad, namespace)
