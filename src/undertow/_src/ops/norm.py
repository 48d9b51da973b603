"""Normalisation functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import values_known
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.arrays.quiet import quietly
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_ints, check_constant, check_tensor, must_be, no_kernel, wrap_dim
from undertow._src.engine.outputs import into
from undertow._src.engine.writes import write
from undertow._src.ops.arrange import constant_pad_nd
from undertow._src.ops.image_order import ordered_like
from undertow._src.ops.pool_average import avg_pool2d, avg_pool3d
from undertow._src.ops.public import public
from undertow._src.rules import norm as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF, float32
from undertow._src.types.sizes import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor


def _check_optional(value: object, name: str, argument: str, position: int | None = None) -> None:
    if value is not None and not isinstance(value, TensorCore):
        raise must_be("Tensor", value, name, argument, position)


def _check_layer(
    name: str, input: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, gap: str
) -> tuple[int, ...]:
    check_tensor(input, name)
    wanted = as_ints(shape, name, "normalized_shape", 2)
    _check_optional(weight, name, "weight", 3)
    _check_optional(bias, name, "bias", 4)
    if not wanted:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one size, not empty"
        )
    for argument, value in (("weight", weight), ("bias", bias)):
        if value is not None and value._array.shape != wanted:
            raise RuntimeError(
                f"Expected {argument} to be of same shape as normalized_shape, but got {argument} of shape "
                f"{list(value._array.shape)} and normalized_shape = {list(wanted)}"
            )
    have = input._array.shape
    if len(have) < len(wanted) or have[len(have) - len(wanted) :] != wanted:
        raise RuntimeError(
            f"Given normalized_shape={list(wanted)}, expected input with shape [*{gap}{', '.join(map(str, wanted))}], but "
            f"got input of size{list(have)}"
        )
    return wanted


def _wider_parameters(input: Tensor, *parameters: Any) -> bool:
    """Whether half-precision data comes with float32 parameters, the one mixture that PyTorch allows."""
    kind = input._array.dtype
    others = [value._array.dtype for value in parameters if value is not None and value._array.dtype != kind]
    if not others:
        return False
    if kind.itemsize == 2 and all(other == np.float32 for other in others):
        return True
    if all(other == np.float32 for other in others):
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")


@public
def layer_norm(
    input: Tensor, normalized_shape: _size, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """(x − mean) / √(var + eps) over the last dims, times weight, plus bias."""
    wanted = _check_layer("layer_norm", input, normalized_shape, weight, bias, ", ")
    if weight is None and not DTYPE_OF[input._array.dtype].is_floating_point:
        raise no_kernel("LayerNormKernelImpl", input)
    if _wider_parameters(input, weight, bias):
        wide = float32.numpy
        return apply(rules.mixed_layer_norm, input, weight, bias, normalized_shape=wanted, eps=eps, wide=wide)
    return apply(rules.layer_norm, input, weight, bias, normalized_shape=wanted, eps=eps)


@public
def native_layer_norm(
    input: Tensor, normalized_shape: _size, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Any, Any, Any]:
    """layer_norm with the statistics it used: the mean and 1/√(var + eps) of each row."""
    out = layer_norm(input, normalized_shape, weight, bias, eps)
    rows = input._array.astype(np.float32) if input._array.dtype.itemsize == 2 else input._array
    _, mean, rstd = namespace_of([rows]).layer_norm(rows, len(normalized_shape), None, None, eps)
    return out, wrap(mean), wrap(rstd)


@public
def rms_norm(input: Tensor, normalized_shape: _size, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """x / √(mean(x²) + eps) over the last dims, times weight."""
    if isinstance(normalized_shape, (list, tuple)) and input._array.ndim < len(normalized_shape):
        raise ValueError(
            f"Input tensor must have at least {len(normalized_shape)} dimensions, but got {input._array.ndim}"
        )
    wanted = _check_layer("rms_norm", input, normalized_shape, weight, None, "")
    kind = DTYPE_OF[input._array.dtype]
    if not kind.is_floating_point:
        raise no_kernel("rms_norm", input)
    if eps is None:
        eps = float(np.finfo(kind.opmath.numpy).eps)
    if weight is not None and weight._array.dtype != input._array.dtype:
        names = [DTYPE_OF[given._array.dtype].c_name for given in (input, weight)]
        warn_once(
            f"Mismatch dtype between input and weight: input dtype = {names[0]}, weight dtype = {names[1]}, Cannot "
            "dispatch to fused implementation."
        )
    if kind.itemsize == 2 or (weight is not None and weight.dtype.itemsize > kind.itemsize):
        wide = kind.opmath if weight is None or weight.dtype.itemsize < 8 else weight.dtype
        scale = None if weight is None else weight.to(wide)
        return apply(rules.rms_norm, input.to(wide), scale, normalized_shape=wanted, eps=eps).to(input.dtype)
    return apply(rules.rms_norm, input, weight, normalized_shape=wanted, eps=eps)


@public
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Normalise each group of channels, then scale and shift channel by channel."""
    check_tensor(input, "group_norm")
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if num_groups < 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if shape[0] * math.prod(shape[2:]) * shape[1] // num_groups == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(shape)}")
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but the shape is "
            f"{list(shape)}, num_groups={num_groups}"
        )
    for argument, value in (("weight", weight), ("bias", bias)):
        if value is not None and value._array.shape != (shape[1],):
            raise RuntimeError(
                f"Expected {argument} to be a vector of size equal to the number of channels in input, but got "
                f"{argument} of shape {list(value._array.shape)} and input of shape {list(shape)}"
            )
    wider = _wider_parameters(input, weight, bias)
    if not DTYPE_OF[input._array.dtype].is_floating_point:
        raise no_kernel("GroupNormKernelImpl", input)
    statics = {"N": shape[0], "C": shape[1], "HxW": math.prod(shape[2:]), "group": num_groups, "eps": eps}
    if wider:
        statics["wide"] = float32.numpy
        return ordered_like(apply(rules.mixed_group_norm, input, weight, bias, **statics), input)
    return ordered_like(apply(rules.group_norm, input, weight, bias, **statics), input)


# --- batches


def _check_channels(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool,
) -> None:  # fmt: skip
    channels = input._array.shape[1] if input._array.ndim > 1 else 0
    for argument, value in (("running_mean", running_mean), ("running_var", running_var)):
        if value is None and not training:
            raise RuntimeError(f"{argument} must be defined in evaluation mode")
    given = (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias))
    for argument, value in given:
        if value is not None and value._array.size != channels:
            raise RuntimeError(f"{argument} should contain {channels} elements not {value._array.size}")
    wrap_dim(1, input._array.ndim)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    check_constant(running_mean, "native_batch_norm", "running_mean")
    check_constant(running_var, "native_batch_norm", "running_var")
    if not DTYPE_OF[input._array.dtype].is_floating_point:
        raise no_kernel("batch_norm", input)


def _batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> Tensor:  # fmt: skip
    return normalized_batch(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def normalized_batch(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool, momentum: float, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the normalised batch, and the mean and 1/√(var + eps) of each channel that were used."""
    if input._array.size == 0:
        return _empty_batch(input, weight, bias)
    _check_channels(input, weight, bias, running_mean, running_var, training)
    mixed = _wider_parameters(input, weight, bias, running_mean, running_var)
    array, rule = input._array, rules.batch_norm
    statics: dict[str, Any] = {"training": training, "eps": eps}
    if array.dtype.itemsize == 2:
        array, rule, statics["wide"] = array.astype(np.float32), rules.half_batch_norm, float32.numpy
    mean, rstd = quietly(_statistics, array, running_mean, running_var, training, momentum, eps)
    if training and rule is rules.half_batch_norm and not mixed:  # as in PyTorch, the statistics are rounded too
        mean, rstd = (each.astype(input._array.dtype).astype(np.float32) for each in (mean, rstd))
    result = apply(rule, input, weight, bias, running_mean, running_var, wrap(mean), wrap(rstd), **statics)
    return ordered_like(result, input), mean, rstd


def _empty_batch(input: Tensor, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Return a batch without elements: PyTorch checks nothing, and the parameters get a gradient of zero."""
    result = input.clone()
    if weight is not None:
        result = result * weight.select(0, 0)
    if bias is not None:
        result = result + bias.select(0, 0)
    return result, np.zeros(0, input._array.dtype), np.zeros(0, input._array.dtype)


def _statistics(
    array: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, Any]:
    """Mean and 1/√(var + eps) of each channel; in training the running ones are updated with the batch's."""
    if not training:
        wide = running_mean._array.astype(array.dtype), running_var._array.astype(array.dtype)
        return wide[0], 1 / np.sqrt(wide[1] + eps)
    mean, variance = namespace_of([array]).channel_moments(array)
    if running_mean is not None and array.size:
        count = array.size // max(1, array.shape[1])
        unbiased = variance * (count / (count - 1)) if count > 1 else variance * np.nan
        for running, batch in ((running_mean, mean), (running_var, unbiased)):
            # PyTorch does not count this write: what an earlier pass saved stays valid.
            np.copyto(running._array, running._array * (1 - momentum) + batch * momentum, casting="unsafe")
    return mean, 1 / np.sqrt(variance + eps)


def _as_float(value: Any, name: str, argument: str, position: int) -> float:
    if isinstance(value, (bool, str)) or not hasattr(type(value), "__float__"):
        raise must_be("float", value, name, argument, position)
    if isinstance(value, TensorCore) and not values_known(value._array):
        return value._array
    return float(value)


@public
def torch_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Normalise each channel over the batch (or by running statistics), then scale and shift it."""
    check_tensor(input, "batch_norm")
    momentum = _as_float(momentum, "batch_norm", "momentum", 7)
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


torch_batch_norm.__name__ = torch_batch_norm.__qualname__ = "batch_norm"
torch_batch_norm.__module__ = "undertow"


@public
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-05,
) -> Tensor:  # fmt: skip
    """Normalise each channel over the batch (or by running statistics), then scale and shift it."""
    check_tensor(input, "batch_norm")
    shape = input._array.shape
    if training and not shape:
        raise IndexError("tuple index out of range. The input has no dims, and so no batch")
    if training and shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size_of(shape)}")
    if isinstance(eps, (float, int)) and eps <= 0 and (training or eps < 0):
        wanted = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {wanted}, but got {eps}")
    momentum = _as_float(momentum, "batch_norm", "momentum", 7)
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@public
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05,
) -> Tensor:  # fmt: skip
    """Normalise each channel of each image, then scale and shift it."""
    check_tensor(input, "instance_norm")
    shape = input._array.shape
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size_of(shape)}")
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    batch, channels = input.size(0), input.size(1)
    weights, biases, means, variances = (
        None if value is None else value.repeat(batch) for value in (weight, bias, running_mean, running_var)
    )
    images = input.contiguous().view(1, batch * channels, *shape[2:])
    out = _batch_norm(images, weights, biases, means, variances, use_input_stats, momentum, eps)
    for running, repeated in ((running_mean, means), (running_var, variances)):
        if running is not None and repeated is not None and use_input_stats:
            total = repeated._array.reshape(batch, channels).sum(0)
            write(running, quietly(np.divide, total, total.dtype.type(batch)))
    return out.view(shape)


@public
def torch_instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Normalise each channel of each image, then scale and shift it."""
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


torch_instance_norm.__name__ = torch_instance_norm.__qualname__ = "instance_norm"
torch_instance_norm.__module__ = "undertow"


# --- by neighbours and by length


@public
def local_response_norm(input: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta."""
    check_tensor(input, "local_response_norm")
    shape = input._array.shape
    if len(shape) < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {len(shape)} dimensions)"
        )
    if input._array.size == 0:
        return input
    before, after = size // 2, (size - 1) // 2
    squares = input.mul(input)
    if len(shape) == 3:
        padded = constant_pad_nd(squares.unsqueeze(1), (0, 0, before, after))
        means = avg_pool2d(padded, (size, 1), stride=1).squeeze(1)
    else:
        cells = squares.unsqueeze(1).view(shape[0], 1, shape[1], shape[2], -1)
        padded = constant_pad_nd(cells, (0, 0, 0, 0, before, after))
        means = avg_pool3d(padded, (size, 1, 1), stride=1).squeeze(1).view(shape)
    return input / means.mul(alpha).add(k).pow(beta)


@public
def normalize(
    input: Tensor, p: float = 2.0, dim: int | _size = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x divided by its p-norm along a dim."""
    check_tensor(input, "normalize")
    length = input.norm(p, dim, keepdim=True)
    if out is None:
        return input / length.clamp_min(eps).expand_as(input)
    return into(out, lambda: input / length.clamp_min(eps).expand_as(input), (input,), "div", casts=True)
