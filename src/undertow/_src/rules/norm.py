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
                lambda xp, input, weight, bias, *, N, C, HxW, group, eps: xp.group_norm(
                    input, weight, bias, (N, C, HxW, group), eps),
                promote="same", accepts="f", hidden=("result1", "result2"),
                joint=lambda xp, g, needs, input, weight, result1, result2, N, C, HxW, group: xp.group_norm_grad(
                    g, input, result1, result2, weight, (N, C, HxW, group), needs))

mixed_group_norm = op("native_group_norm",
                      lambda xp, input, weight, bias, *, N, C, HxW, group, eps, wide: rounded(xp, xp.group_norm(
                          xp.astype(input, wide), weight, bias, (N, C, HxW, group), eps), input),
                      hidden=("result1", "result2"),
                      joint=lambda xp, g, needs, input, weight, result1, result2, N, C, HxW, group, wide: rounded(
                          xp, xp.group_norm_grad(xp.astype(g, wide), xp.astype(input, wide), result1, result2, weight,
                                                 (N, C, HxW, group), needs), input))

# The statistics are inputs, because the caller also updates running ones with them: `result1` is the mean that is
# subtracted, `result2` the factor of the rest. In training both are the input's own.
batch_norm = op("native_batch_norm",
                lambda xp, input, weight, bias, running_mean, running_var, result1, result2, *, training, eps:
                    normalize_channels(xp, input, weight, bias, result1, result2),
                promote="same", accepts="f", slots=3,
                joint=lambda xp, g, needs, input, weight, running_mean, running_var, result1, result2, training, eps:
                    xp.batch_norm_grad(g, input, result1, result2, weight, training, needs, eps))

# Half-precision data, with parameters of either precision: computed in float32, rounded at the end.
half_batch_norm = op("native_batch_norm",
                     lambda xp, input, weight, bias, running_mean, running_var, result1, result2, *, training, eps, wide:
                         xp.astype(normalize_channels(
                             xp, xp.astype(input, wide), widened(xp, weight, wide), widened(xp, bias, wide),
                             result1, result2), xp.dtype_of(input)),
                     slots=3,
                     joint=lambda xp, g, needs, input, weight, running_mean, running_var, result1, result2, training, eps,
                     wide: _rounded_like(xp, xp.batch_norm_grad(
                         xp.astype(g, wide), xp.astype(input, wide), result1, result2, widened(xp, weight, wide), training,
                         needs, eps), input, weight))
# fmt: on


def widened(xp: Namespace, value: Array | None, wide: Any) -> Array | None:
    """Return a parameter, if there is one, in a wider dtype."""
    return None if value is None else xp.astype(value, wide)


def _rounded_like(xp: Namespace, values: tuple[Any, ...], input: Array, weight: Array | None) -> tuple[Any, ...]:
    """Return the gradients of data and of parameters in their dtypes."""
    likes = [input, *[input if weight is None else weight] * (len(values) - 1)]
    return tuple([
        None if value is None else xp.astype(value, xp.dtype_of(like))
        for value, like in zip(values, likes, strict=True)
    ])  # fmt: skip


def rounded(xp: Namespace, values: tuple[Any, ...], like: Array) -> tuple[Any, ...]:
    """Return the first value in the dtype of the data, the others unchanged."""
    return (None if values[0] is None else xp.astype(values[0], xp.dtype_of(like)), *values[1:])


def normalize_channels(
    xp: Namespace, input: Array, weight: Array | None, bias: Array, mean: Array, rstd: Array
) -> Array:
    """(input − mean) · rstd · weight + bias, with the channels on axis 1."""
    return xp.channel_affine(input, rstd if weight is None else rstd * weight, bias, mean)
