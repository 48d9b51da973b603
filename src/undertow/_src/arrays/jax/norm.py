"""Norms of images on JAX. The other norms are the expressions of composed.py, which XLA fuses well.

On a GPU images have their channels last in memory (see layout.py), and passes over them take the time. So groups of
channels are never an axis of the image, only of what is left of it per channel, and moments are computed in one pass.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from undertow._src.arrays import composed
from undertow._src.arrays.jax.tracing import platform_of

Array = Any
Needs = tuple[bool, ...]
Sizes = tuple[int, ...]


def _per_channel(values: Array, ndim: int) -> Array:
    return values.reshape((1, -1) + (1,) * (ndim - 2))


def batch_norm_grad(
    g: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, training: bool, needs: Needs, eps: float
) -> tuple[Array | None, Array | None, Array | None]:
    """Return the gradients of x, weight and bias, from two sums per channel: of g, and of g times the centred x."""
    axes = (0, *range(2, x.ndim))
    count = max(1, x.size // max(1, x.shape[1]))
    centred = x - _per_channel(mean, x.ndim)
    total, lean = jnp.sum(g, axes), jnp.sum(g * centred, axes)
    grad = None
    if needs[0]:
        factor = rstd if weight is None else rstd * weight
        grad = g
        if training:
            tilt = lean * rstd * rstd / count
            grad = g - _per_channel(total / count, x.ndim) - centred * _per_channel(tilt, x.ndim)
        grad = grad * _per_channel(factor, x.ndim)
    return grad, lean * rstd if needs[1] else None, total if needs[2] else None


def channel_moments(xp: Any, x: Array) -> tuple[Array, Array]:
    """Return the mean and the biased variance of each channel.

    On a GPU both are sums over one pass, relative to the channel's first element: far from zero, the difference of two
    large sums would lose the variance.
    """
    if platform_of(x) == "cpu" or not x.size:
        return composed.channel_moments(xp, x)
    axes = (0, *range(2, x.ndim))
    first = x[(slice(0, 1), slice(None), *[slice(0, 1)] * (x.ndim - 2))]
    apart = x - first
    count = x.size // x.shape[1]
    mean, square = jnp.sum(apart, axes) / count, jnp.sum(apart * apart, axes) / count
    return mean + first.reshape(-1), jnp.maximum(square - mean * mean, 0)


def _in_images(xp: Any, values: Array, x: Array) -> Array:
    """Return one value per (batch, group) in the shape of images, for broadcasting."""
    spread = composed.in_channels(xp, values, x.shape[1])
    return spread.reshape(spread.shape + (1,) * (x.ndim - 2))


def _is_images(x: Array, sizes: Sizes) -> bool:
    return tuple(x.shape[:2]) == sizes[:2] and x.size > 0


def group_norm(
    xp: Any, x: Array, weight: Array | None, bias: Array | None, sizes: Sizes, eps: float
) -> tuple[Array, Array, Array]:
    """Normalise groups of channels, as `composed.group_norm` does."""
    batch, channels, area, groups = sizes
    if platform_of(x) == "cpu" or not _is_images(x, sizes):
        return composed.group_norm(xp, x, weight, bias, sizes, eps)
    axes, count = tuple(range(2, x.ndim)), channels // groups * area
    first = x[(slice(None), slice(0, None, channels // groups), *[slice(0, 1)] * (x.ndim - 2))].reshape(batch, groups)
    apart = x - _in_images(xp, first, x)
    shift, square = (composed.group_sums(xp, jnp.sum(part, axes), groups) / count for part in (apart, apart * apart))
    mean = first + shift
    rstd = 1 / jnp.sqrt(jnp.maximum(square - shift * shift, 0) + eps)
    scale = _in_images(xp, rstd, x)
    out = (x - _in_images(xp, mean, x)) * (scale if weight is None else scale * _per_channel(weight, x.ndim))
    return out if bias is None else out + _per_channel(bias, x.ndim), mean, rstd


def group_norm_grad(
    xp: Any, g: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, sizes: Sizes, needs: Needs
) -> tuple[Array | None, Array | None, Array | None]:
    """Return the gradients of x, weight and bias, as `composed.group_norm_grad` does."""
    _, channels, area, groups = sizes
    if platform_of(x) == "cpu" or not _is_images(x, sizes):
        return composed.group_norm_grad(xp, g, x, mean, rstd, weight, sizes, needs)
    axes, count = tuple(range(2, x.ndim)), channels // groups * area
    centred = x - _in_images(xp, mean, x)
    total, lean = jnp.sum(g, axes), jnp.sum(g * centred, axes)
    grad = None
    if needs[0]:
        level, tilt = (
            composed.group_sums(xp, part if weight is None else part * weight, groups) / count for part in (total, lean)
        )
        factor = _in_images(xp, rstd, x)
        grad = g * (factor if weight is None else factor * _per_channel(weight, x.ndim))
        grad = grad - centred * _in_images(xp, tilt * rstd * rstd * rstd, x) - _in_images(xp, level * rstd, x)
    scale = composed.in_channels(xp, rstd, channels)
    return grad, jnp.sum(lean * scale, 0) if needs[1] else None, jnp.sum(total, 0) if needs[2] else None
