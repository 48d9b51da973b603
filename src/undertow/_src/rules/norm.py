"""Normalisation: layers, groups, batches. Closed forms for both passes; the kernels are functions of the vocabulary."""

# fmt: off
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

layer_norm = op("native_layer_norm",
                lambda xp, input, weight, bias, *, normalized_shape, eps: xp.layer_norm(
                    input, len(normalized_shape), weight, bias, eps),
                promote="same", accepts="f", hidden=("result1", "result2"),
                joint=lambda xp, g, needs, input, weight, bias, result1, result2, normalized_shape:
                    xp.layer_norm_grad(g, input, result1, result2, weight, len(normalized_shape), needs))

# Half-precision data with float32 parameters: computed in float32, rounded at the end.
mixed_layer_norm = op("native_layer_norm",
                      lambda xp, input, weight, bias, *, normalized_shape, eps, wide: rounded(xp, xp.layer_norm(
                          xp.astype(input, wide), len(normalized_shape), weight, bias, eps), input),
                      hidden=("result1", "result2"),
                      joint=lambda xp, g, needs, input, weight, bias, result1, result2, normalized_shape, wide: rounded(
                          xp, xp.layer_norm_grad(xp.astype(g, wide), xp.astype(input, wide), result1, result2, weight,
                                                 len(normalized_shape), needs), input))

# PyTorch composes this one; its last step is the multiplication by the weight.
rms_norm = op("rms_norm",
              lambda xp, input, weight, *, normalized_shape, eps: xp.rms_norm(input, len(normalized_shape), weight, eps),
              node="MulBackward0", promote="same", accepts="f", hidden=("rstd",),
              joint=lambda xp, g, needs, input, weight, rstd, normalized_shape: xp.rms_norm_grad(
                  g, input, rstd, weight, len(normalized_shape), needs))

group_norm = op("native_group_norm",
                lambda xp, input, weight, bias, *, N, C, HxW, group, eps: normalize_groups(
                    xp, input, weight, bias, (N, C, HxW, group), eps),
                promote="same", accepts="f", hidden=("result1", "result2"),
                joint=lambda xp, g, needs, input, weight, result1, result2, N, C, HxW, group: group_gradients(
                    xp, g, needs, input, weight, result1, result2, (N, C, HxW, group)))

# The statistics are inputs, because the caller also updates running ones with them: `result1` is the mean that is
# subtracted, `result2` the factor of the rest. In training both are the input's own.
batch_norm = op("native_batch_norm",
                lambda xp, input, weight, bias, running_mean, running_var, result1, result2, *, training, eps:
                    normalize_channels(xp, input, weight, bias, result1, result2),
                promote="same", accepts="f", slots=3,
                joint=lambda xp, g, needs, input, weight, running_mean, running_var, result1, result2, training, eps:
                    xp.batch_norm_grad(g, input, result1, result2, weight, training, needs, eps))
# fmt: on


def rounded(xp: Namespace, values: tuple[Any, ...], like: Array) -> tuple[Any, ...]:
    """Return the first value in the dtype of the data, the others unchanged."""
    return (None if values[0] is None else xp.astype(values[0], xp.dtype_of(like)), *values[1:])


def normalize_channels(
    xp: Namespace, input: Array, weight: Array | None, bias: Array, mean: Array, rstd: Array
) -> Array:
    """(input − mean) · rstd · weight + bias, with the channels on axis 1."""
    return xp.channel_affine(input, rstd if weight is None else rstd * weight, bias, mean)


def normalize_groups(
    xp: Namespace, input: Array, weight: Array | None, bias: Array | None, sizes: tuple[int, ...], eps: float
) -> tuple[Array, ...]:
    """Normalise each group of channels: (input − mean) · scale + bias, with one scale per channel.

    The mean is subtracted first: far from zero, input · scale + shift would be the difference of two large numbers.
    """
    batch, channels, area, groups = sizes
    mean, variance = xp.channel_moments(xp.reshape(input, (1, batch * groups, channels // groups * area)))
    mean, rstd = xp.reshape(mean, (batch, groups)), 1 / xp.sqrt(xp.reshape(variance, (batch, groups)) + eps)
    scale = per_channel(xp, rstd, channels) if weight is None else per_channel(xp, rstd, channels) * weight
    column = (batch * channels, 1)
    centred = xp.reshape(input, (batch * groups, channels // groups * area)) - xp.reshape(mean, (batch * groups, 1))
    out = xp.reshape(centred, (batch * channels, area)) * xp.reshape(scale, column)
    if bias is not None:
        out = out + xp.reshape(xp.broadcast_to(bias, (batch, channels)), column)
    return xp.reshape(out, input.shape), mean, rstd


def group_gradients(
    xp: Namespace, g: Array, needs: tuple[bool, ...], input: Array, weight: Array | None, mean: Array, rstd: Array,
    sizes: tuple[int, ...],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of the input, the weight and the bias through `normalize_groups`.

    With h = g · weight and means over groups, ∂input = rstd · (h − mean(h) − (input − mean) · rstd² · mean(h · (input −
    mean))).
    """
    batch, channels, area, groups = sizes
    grouped, column = (batch * groups, channels // groups * area), (batch * groups, 1)
    centred = xp.reshape(input, grouped) - xp.reshape(mean, column)
    rows, values = (xp.reshape(x, (batch * channels, area)) for x in (g, centred))
    total = xp.reshape(xp.sum(rows, axis=1), (batch, channels))
    lean = xp.reshape(xp.sum(rows * values, axis=1), (batch, channels))
    grad = weight_grad = bias_grad = None
    if needs[0]:
        count = channels // groups * area
        level, tilt = (
            xp.sum(xp.reshape(x if weight is None else x * weight, (batch, groups, channels // groups)), axis=2) / count
            for x in (total, lean)
        )
        factor = per_channel(xp, rstd, channels) if weight is None else per_channel(xp, rstd, channels) * weight
        slope = -tilt * rstd * rstd * rstd
        grad = xp.reshape(rows * xp.reshape(factor, (batch * channels, 1)), grouped)
        grad = grad + (centred * xp.reshape(slope, column) - xp.reshape(level * rstd, column))
        grad = xp.reshape(grad, input.shape)
    if needs[1]:
        weight_grad = xp.sum(lean * per_channel(xp, rstd, channels), axis=0)
    if needs[2]:
        bias_grad = xp.sum(total, axis=0)
    return grad, weight_grad, bias_grad


def per_channel(xp: Namespace, values: Array, channels: int) -> Array:
    """Expand one value per (batch, group) to one per (batch, channel)."""
    batch, groups = values.shape
    spread = xp.broadcast_to(xp.reshape(values, (batch, groups, 1)), (batch, groups, channels // groups))
    return xp.reshape(spread, (batch, channels))
