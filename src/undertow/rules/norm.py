"""Normalisation: layers, groups, batches. Closed forms for both passes; the kernels are words of the vocabulary."""

# fmt: off
from __future__ import annotations

from typing import Any

from undertow.rules.rule import op

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

# The statistics come in as inputs, because the caller also updates running ones with them: `result1` is the mean that
# is taken off, `result2` what the rest is multiplied by. In training both are the input's own.
batch_norm = op("native_batch_norm",
                lambda xp, input, weight, bias, running_mean, running_var, result1, result2, *, training, eps:
                    normalize_channels(xp, input, weight, bias, result1, result2),
                promote="same", accepts="f", slots=3,
                joint=lambda xp, g, needs, input, weight, running_mean, running_var, result1, result2, training, eps:
                    xp.batch_norm_grad(g, input, result1, result2, weight, training, needs, eps))
# fmt: on


def rounded(xp: Any, values: tuple[Any, ...], like: Any) -> tuple[Any, ...]:
    """The first value in the dtype of the data, the others as they are."""
    return (None if values[0] is None else xp.astype(values[0], xp.dtype_of(like)), *values[1:])


def normalize_channels(xp: Any, input: Any, weight: Any, bias: Any, mean: Any, rstd: Any) -> Any:
    """(input − mean) · rstd · weight + bias, with the channels on axis 1."""
    scale = rstd if weight is None else rstd * weight
    shift = -mean * scale
    return xp.channel_affine(input, scale, shift if bias is None else shift + bias)


def normalize_groups(xp: Any, input: Any, weight: Any, bias: Any, sizes: tuple[int, ...], eps: float) -> Any:
    """Each group of channels normalised on its own, then one scale and shift per channel."""
    batch, channels, area, groups = sizes
    rows = xp.reshape(input, (batch * groups, channels // groups * area))
    normalized, mean, rstd = xp.layer_norm(rows, 1, None, None, eps)
    out = xp.reshape(normalized, input.shape)
    if weight is not None:
        out = out * xp.reshape(weight, _per_channel(out))
    if bias is not None:
        out = out + xp.reshape(bias, _per_channel(out))
    return out, xp.reshape(mean, (batch, groups)), xp.reshape(rstd, (batch, groups))


def group_gradients(
    xp: Any, g: Any, needs: Any, input: Any, weight: Any, mean: Any, rstd: Any, sizes: tuple[int, ...]
) -> tuple[Any, Any, Any]:
    """Gradients of the input, the weight and the bias through `normalize_groups`."""
    batch, channels, area, groups = sizes
    grad = weight_grad = bias_grad = None
    if needs[0]:
        scaled = g if weight is None else g * xp.reshape(weight, _per_channel(g))
        rows, values = (xp.reshape(x, (batch * groups, channels // groups * area)) for x in (scaled, input))
        center, scale = xp.reshape(mean, (batch * groups, 1)), xp.reshape(rstd, (batch * groups, 1))
        grad, _, _ = xp.layer_norm_grad(rows, values, center, scale, None, 1, (True, False, False))
        grad = xp.reshape(grad, input.shape)
    if needs[1] or needs[2]:
        total = xp.sum(xp.reshape(g, (batch, groups, channels // groups, area)), axis=3)
        if needs[1]:
            lean = xp.sum(xp.reshape(g * input, (batch, groups, channels // groups, area)), axis=3)
            lean = (lean - total * xp.reshape(mean, (batch, groups, 1))) * xp.reshape(rstd, (batch, groups, 1))
            weight_grad = xp.reshape(xp.sum(lean, axis=0), (channels,))
        if needs[2]:
            bias_grad = xp.reshape(xp.sum(total, axis=0), (channels,))
    return grad, weight_grad, bias_grad


def _per_channel(x: Any) -> tuple[int, ...]:
    return (1, x.shape[1]) + (1,) * (x.ndim - 2)
