"""Kernels as expressions over the rest of the vocabulary, for namespaces without a faster one.

Each takes the namespace first. On undertow's tensors they are differentiable because their parts are, so a recorded
backward pass runs these. The statistics of a batch are passed as constants and computed again here, to be part of the
graph.
"""

from __future__ import annotations

import math
from typing import Any

Needs = tuple[bool, ...]


def _mean(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return xp.sum(x, axis=axes, keepdims=True) / max(1, count)


# --- an activation ------------------------------------------------------------------------------------------------

_CUBIC, _ROOT_2_OVER_PI = 0.044715, math.sqrt(2 / math.pi)


def gelu_tanh(xp: Any, x: Any) -> Any:
    return x * (0.5 * (1 + xp.tanh(_ROOT_2_OVER_PI * x * (1 + _CUBIC * (x * x)))))


def gelu_tanh_grad(xp: Any, g: Any, x: Any) -> Any:
    square = x * x
    t = xp.tanh(_ROOT_2_OVER_PI * x * (1 + _CUBIC * square))
    return g * (0.5 * (1 + t) + (0.5 * _ROOT_2_OVER_PI) * x * (1 - t * t) * (1 + 3 * _CUBIC * square))


# --- normalisation ------------------------------------------------------------------------------------------------


def layer_norm(xp: Any, x: Any, trailing: int, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    axes = tuple(range(x.ndim - trailing, x.ndim))
    mean = _mean(xp, x, axes)
    centred = x - mean
    rstd = 1 / xp.sqrt(_mean(xp, centred * centred, axes) + eps)
    out = centred * rstd
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias, mean, rstd


def layer_norm_grad(
    xp: Any, g: Any, x: Any, mean: Any, rstd: Any, weight: Any, trailing: int, needs: Needs
) -> tuple[Any, Any, Any]:
    axes = tuple(range(x.ndim - trailing, x.ndim))
    rows = tuple(range(x.ndim - trailing))
    unit = (x - mean) * rstd
    grad = weight_grad = bias_grad = None
    if needs[0]:
        scaled = g if weight is None else g * weight
        grad = rstd * (scaled - _mean(xp, scaled, axes) - unit * _mean(xp, scaled * unit, axes))
    if needs[1]:
        weight_grad = xp.sum(g * unit, axis=rows) if rows else g * unit
    if needs[2]:
        bias_grad = xp.sum(g, axis=rows) if rows else g
    return grad, weight_grad, bias_grad


def rms_norm(xp: Any, x: Any, trailing: int, weight: Any, eps: float) -> tuple[Any, Any]:
    rstd = 1 / xp.sqrt(_mean(xp, x * x, tuple(range(x.ndim - trailing, x.ndim))) + eps)
    return x * rstd if weight is None else x * rstd * weight, rstd


def rms_norm_grad(xp: Any, g: Any, x: Any, rstd: Any, weight: Any, trailing: int, needs: Needs) -> tuple[Any, Any]:
    rows = tuple(range(x.ndim - trailing))
    grad = weight_grad = None
    unit = x * rstd
    if needs[0]:
        scaled = g if weight is None else g * weight
        grad = rstd * (scaled - unit * _mean(xp, scaled * unit, tuple(range(x.ndim - trailing, x.ndim))))
    if needs[1]:
        weight_grad = xp.sum(g * unit, axis=rows) if rows else g * unit
    return grad, weight_grad


def _per_channel(xp: Any, values: Any, ndim: int) -> Any:
    return xp.reshape(values, (1, -1) + (1,) * (ndim - 2))


def channel_moments(xp: Any, x: Any) -> tuple[Any, Any]:
    axes = (0, *range(2, x.ndim))
    mean = _mean(xp, x, axes)
    centred = x - mean
    return xp.reshape(mean, (-1,)), xp.reshape(_mean(xp, centred * centred, axes), (-1,))


def channel_affine(xp: Any, x: Any, scale: Any, shift: Any, center: Any = None) -> Any:
    if center is not None:
        x = x - _per_channel(xp, center, x.ndim)
    out = x * _per_channel(xp, scale, x.ndim)
    return out if shift is None else out + _per_channel(xp, shift, x.ndim)


def group_norm(xp: Any, x: Any, weight: Any, bias: Any, sizes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """Normalise each group of channels: (x − mean) · scale + bias, with one scale per channel.

    The mean is subtracted first: far from zero, x · scale + shift would be the difference of two large numbers.
    """
    batch, channels, area, groups = sizes
    mean, variance = xp.channel_moments(xp.reshape(x, (1, batch * groups, channels // groups * area)))
    mean, rstd = xp.reshape(mean, (batch, groups)), 1 / xp.sqrt(xp.reshape(variance, (batch, groups)) + eps)
    scale = in_channels(xp, rstd, channels) if weight is None else in_channels(xp, rstd, channels) * weight
    column = (batch * channels, 1)
    centred = xp.reshape(x, (batch * groups, channels // groups * area)) - xp.reshape(mean, (batch * groups, 1))
    out = xp.reshape(centred, (batch * channels, area)) * xp.reshape(scale, column)
    if bias is not None:
        out = out + xp.reshape(xp.broadcast_to(bias, (batch, channels)), column)
    return xp.reshape(out, x.shape), mean, rstd


def group_norm_grad(
    xp: Any, g: Any, x: Any, mean: Any, rstd: Any, weight: Any, sizes: tuple[int, ...], needs: Needs
) -> tuple[Any, Any, Any]:
    """Return the gradients of x, the weight and the bias through `group_norm`.

    With h = g · weight and means over groups, ∂x = rstd · (h − mean(h) − (x − mean) · rstd² · mean(h · (x − mean))).
    """
    batch, channels, area, groups = sizes
    grouped, column = (batch * groups, channels // groups * area), (batch * groups, 1)
    centred = xp.reshape(x, grouped) - xp.reshape(mean, column)
    rows, values = (xp.reshape(part, (batch * channels, area)) for part in (g, centred))
    total = xp.reshape(xp.sum(rows, axis=1), (batch, channels))
    lean = xp.reshape(xp.sum(rows * values, axis=1), (batch, channels))
    grad = weight_grad = bias_grad = None
    if needs[0]:
        level, tilt = (
            group_sums(xp, part if weight is None else part * weight, groups) / grouped[1] for part in (total, lean)
        )
        factor = in_channels(xp, rstd, channels) if weight is None else in_channels(xp, rstd, channels) * weight
        slope = -tilt * rstd * rstd * rstd
        grad = xp.reshape(rows * xp.reshape(factor, (batch * channels, 1)), grouped)
        grad = grad + (centred * xp.reshape(slope, column) - xp.reshape(level * rstd, column))
        grad = xp.reshape(grad, x.shape)
    if needs[1]:
        weight_grad = xp.sum(lean * in_channels(xp, rstd, channels), axis=0)
    if needs[2]:
        bias_grad = xp.sum(total, axis=0)
    return grad, weight_grad, bias_grad


def group_sums(xp: Any, values: Any, groups: int) -> Any:
    """Return the sum of each group of channels, of one value per (batch, channel)."""
    batch, channels = values.shape
    return xp.sum(xp.reshape(values, (batch, groups, channels // groups)), axis=2)


def in_channels(xp: Any, values: Any, channels: int) -> Any:
    """Expand one value per (batch, group) to one per (batch, channel)."""
    batch, groups = values.shape
    spread = xp.broadcast_to(xp.reshape(values, (batch, groups, 1)), (batch, groups, channels // groups))
    return xp.reshape(spread, (batch, channels))


def batch_norm_grad(
    xp: Any, g: Any, x: Any, mean: Any, rstd: Any, weight: Any, training: bool, needs: Needs, eps: float
) -> tuple[Any, Any, Any]:
    axes = (0, *range(2, x.ndim))
    if training and xp.RECORDED:
        mean, variance = channel_moments(xp, x)
        rstd = 1 / xp.sqrt(variance + eps)
    scale = _per_channel(xp, rstd, x.ndim)
    unit = (x - _per_channel(xp, mean, x.ndim)) * scale
    grad = weight_grad = bias_grad = None
    if needs[0]:
        grad = g if weight is None else g * _per_channel(xp, weight, x.ndim)
        if training:
            grad = grad - _mean(xp, grad, axes) - unit * _mean(xp, grad * unit, axes)
        grad = grad * scale
    if needs[1]:
        weight_grad = xp.sum(g * unit, axis=axes)
    if needs[2]:
        bias_grad = xp.sum(g, axis=axes)
    return grad, weight_grad, bias_grad


# --- attention ----------------------------------------------------------------------------------------------------


def attention_weights(xp: Any, q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Any:
    """Return softmax(q kᵀ · scale + mask): zero for later positions if causal, and in fully masked rows."""
    scores = xp.matmul(q * scale, xp.swapaxes(k, 2, 3))
    if mask is not None:
        scores = scores + mask
    if causal:
        may_look = xp.tril(xp.ones(tuple(scores.shape[2:]), xp.dtype_of(scores)))
        scores = xp.where(may_look > 0, scores, xp.full_like(scores, -math.inf))
    top = xp.max(scores, axis=(3,), keepdims=True)
    exponentials = xp.exp(scores - xp.where(xp.isfinite(top), top, xp.zeros_like(top)))
    sums = xp.sum(exponentials, axis=(3,), keepdims=True)
    return exponentials / xp.where(sums == 0, xp.ones_like(sums), sums)


def attention(xp: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float) -> tuple[Any, Any, Any]:
    weights = attention_weights(xp, q, repeated(xp, k, q), mask, causal, scale)
    return xp.matmul(weights, repeated(xp, v, q)), None, None


def attention_grad(
    xp: Any, g: Any, q: Any, k: Any, v: Any, mask: Any, out: Any, rows: Any, weights: Any, causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    weights = attention_weights(xp, q, repeated(xp, k, q), mask, causal, scale)
    return attention_grad_from(xp, weights, g, q, k, v, out, scale)


def attention_grad_from(
    xp: Any, weights: Any, g: Any, q: Any, k: Any, v: Any, out: Any, scale: float
) -> tuple[Any, Any, Any]:
    """Return the gradients of q, k and v, given the attention weights and the result."""
    key_shape, value_shape = tuple(k.shape), tuple(v.shape)
    k, v = repeated(xp, k, q), repeated(xp, v, q)
    slopes = xp.matmul(g, xp.swapaxes(v, 2, 3))
    slopes = weights * (slopes - xp.sum(g * out, axis=(3,), keepdims=True))
    grads = xp.matmul(xp.swapaxes(slopes, 2, 3), q * scale), xp.matmul(xp.swapaxes(weights, 2, 3), g)
    return (xp.matmul(slopes, k) * scale, _unrepeated(xp, grads[0], key_shape), _unrepeated(xp, grads[1], value_shape))


def repeated(xp: Any, x: Any, q: Any) -> Any:
    batch, heads, length, channels = x.shape
    if heads == q.shape[1]:
        return x
    shape = (batch, heads, q.shape[1] // heads, length, channels)
    stretched = xp.broadcast_to(xp.reshape(x, (batch, heads, 1, length, channels)), shape)
    return xp.reshape(stretched, (batch, q.shape[1], length, channels))


def _unrepeated(xp: Any, grad: Any, shape: tuple[int, ...]) -> Any:
    if tuple(grad.shape) == shape:
        return grad
    batch, heads, length, channels = shape
    return xp.sum(xp.reshape(grad, (batch, heads, -1, length, channels)), axis=(2,))
