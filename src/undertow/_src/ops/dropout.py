"""The dropout family. Masks are PyTorch's for the same seed: drawn in the order of the input's strides."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, lying
from undertow._src.arrays.numpy.order import empty_copy_of
from undertow._src.base.modes import slow_path
from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, no_kernel
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.activation import softmax
from undertow._src.ops.public import public
from undertow._src.random.generators import stream_of
from undertow._src.random.memory_order import in_memory_order
from undertow._src.rules import dropout as rules
from undertow._src.tensor.core import TensorCore, ndarray, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def _checked_chance(p: Any, error: type[Exception]) -> float:
    if isinstance(p, TensorCore):
        p = p.item()
    if not 0 <= p <= 1:
        shown = f"{p:g}" if error is RuntimeError else p
        raise error(f"dropout probability has to be between 0 and 1, but got {shown}")
    return p


def _laid_out_like(array: Any, flat: np.ndarray) -> np.ndarray:
    """Drawn values in an array of this shape, in the order of its strides."""
    if hasattr(flat, "without_values"):
        return flat.reshape(array.shape)
    if type(array) is ndarray and array.flags.c_contiguous:
        return flat.reshape(array.shape)
    out = empty_copy_of(lying(array), flat.dtype)
    if type(array) is DeviceArray:
        return in_memory_order(flat, out)
    order = sorted(range(out.ndim), key=lambda axis: -out.strides[axis])
    out.transpose(order)[...] = flat.reshape([out.shape[axis] for axis in order])
    return out


def _noise(input: Tensor, p: float, features: bool) -> np.ndarray:
    array = input._array
    if not DTYPE_OF[array.dtype].is_inexact:
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {DTYPE_OF[array.dtype].scalar_name}"
        )
    if array.dtype.kind == "c":
        raise no_kernel("bernoulli_scalar_cpu_", input)
    if not features:
        flat = stream_of(None, input).dropout_noise(array.size, p, array.dtype)
        return _laid_out_like(array, flat)
    shape = _feature_shape(input)
    return stream_of(None, input).dropout_noise(int(np.prod(shape)), p, array.dtype).reshape(shape)


def _feature_shape(input: Tensor) -> tuple[int, ...]:
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return shape[:2] + (1,) * (len(shape) - 2)


def _multiplied(input: Any, noise: object, inplace: bool) -> Tensor:
    factor = noise if isinstance(noise, TensorCore) else wrap(noise)
    return input.mul_(factor) if inplace else input.mul(factor)


def _drop(input: Tensor, p: float, training: bool, inplace: bool, features: bool = False) -> Tensor:
    if p == 0 or not training or input._array.size == 0:
        return input
    if p == 1:
        return _multiplied(input, np.zeros((), input._array.dtype), inplace)
    if not (inplace or features) and type(input._array) is not ndarray and input.is_cuda:
        return native_dropout(input, p, True)[0]
    if slow_path.dispatcher is not None and slow_path.dispatcher.takes((input,)):
        noise = slow_path.dispatcher.noise(input, p, _feature_shape(input) if features else None)
    else:
        noise = _noise(input, p, features)
    return _multiplied(input, noise, inplace)


def _alpha_drop(input: Tensor, p: float, training: bool, inplace: bool, features: bool = False) -> Tensor:
    if p == 0 or not training or input._array.size == 0:
        return input
    array = input._array
    if p == 1:
        return _multiplied(input, np.zeros((), array.dtype), inplace)
    if not DTYPE_OF[array.dtype].is_inexact:
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {DTYPE_OF[array.dtype].scalar_name}"
        )
    shape = _feature_shape(input) if features else array.shape
    factor, summand = stream_of(None, input).alpha_dropout_noise(int(np.prod(shape)), p, array.dtype)
    if features or (type(array) is ndarray and array.flags.c_contiguous):
        factor, summand = factor.reshape(shape), summand.reshape(shape)
    else:
        factor, summand = _laid_out_like(array, factor), _laid_out_like(array, summand)
    return (
        _multiplied(input, factor, True).add_(wrap(summand)) if inplace else input.mul(wrap(factor)).add(wrap(summand))
    )


# --- torch's own


def _torch_dropout(name: str, drop: Callable[..., Any], features: bool, inplace: bool) -> Callable[..., Any]:
    def function(input: Tensor, p: float, train: bool) -> Tensor:
        check_tensor(input, name)
        p = _checked_chance(p, RuntimeError)
        return drop(input, p, train, inplace, features)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "undertow"
    function.__doc__ = f"{'In-place ' if inplace else ''}{name.rstrip('_').replace('_', ' ')} while training."
    return public(function)


torch_dropout, dropout_ = (_torch_dropout(f"dropout{end}", _drop, False, bool(end)) for end in ("", "_"))
feature_dropout, feature_dropout_ = (
    _torch_dropout(f"feature_dropout{end}", _drop, True, bool(end)) for end in ("", "_")
)
torch_alpha_dropout, alpha_dropout_ = (
    _torch_dropout(f"alpha_dropout{end}", _alpha_drop, False, bool(end)) for end in ("", "_")
)
torch_feature_alpha_dropout, feature_alpha_dropout_ = (
    _torch_dropout(f"feature_alpha_dropout{end}", _alpha_drop, True, bool(end)) for end in ("", "_")
)


@public
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return dropout and the mask of kept elements; unlike dropout it draws for every probability."""
    check_tensor(input, "native_dropout")
    array = input._array
    if array.size == 0:
        return input, wrap(np.empty(array.shape, array.dtype))
    if train is False:
        return apply(rules.native_dropout, input, wrap(np.ones(array.shape, bool)), scale=1.0), wrap(
            np.ones(array.shape, bool)
        )
    stream: Any = stream_of(None, input)
    if not input.is_cuda:
        mask = wrap(_laid_out_like(array, stream.bernoulli(array.size, 1 - p, np.bool_)))
    else:
        mask = wrap(np.zeros(array.shape, bool) if p == 1 else stream.dropout_mask(array, p))
    return apply(rules.native_dropout, input, mask, scale=0.0 if p == 1 else 1 / (1 - p)), mask


# --- nn.functional's


@public
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability p, and divide the rest by 1 − p."""
    p = _checked_chance(p, ValueError)
    check_tensor(input, "dropout")
    return _drop(input, p, training, inplace)


@public
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of sequences."""
    p = _checked_chance(p, ValueError)
    ndim = input._array.ndim
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. It drops whole channels, so the input must "
            "be (C, L) or (N, C, L)."
        )
    return _drop_features(input, p, training, inplace, ndim == 3)


def _drop_features(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    if batched:
        return _drop(input, p, training, inplace, features=True)
    input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _drop(input, p, training, inplace, features=True)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def _warn_of_dims(name: str, ndim: int, spatial: int) -> None:
    warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future "
        f"release. It drops whole channels, so the input must have channels followed by {spatial} dimensions, with or "
        f"without a batch: {spatial + 1}D or {spatial + 2}D inputs. dropout accepts any shape."
    )


@public
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of images."""
    p = _checked_chance(p, ValueError)
    ndim = input._array.ndim
    if ndim not in (3, 4):
        _warn_of_dims("dropout2d", ndim, 2)
    if ndim == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and treats it as dropout1d does: shape (N, C, L), whole channels "
            "set to zero. Call dropout1d for that."
        )
    return _drop(input, p, training, inplace, features=True)


@public
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of volumes."""
    p = _checked_chance(p, ValueError)
    ndim = input._array.ndim
    if ndim not in (4, 5):
        _warn_of_dims("dropout3d", ndim, 3)
    return _drop_features(input, p, training, inplace, ndim == 5)


@public
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps the mean and the variance of standardised activations."""
    p = _checked_chance(p, ValueError)
    check_tensor(input, "alpha_dropout")
    return _alpha_drop(input, p, training, inplace)


@public
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels."""
    p = _checked_chance(p, ValueError)
    check_tensor(input, "feature_alpha_dropout")
    return _alpha_drop(input, p, training, inplace, features=True)


# --- other functions that draw


def _random_relu(name: str, input: Tensor, lower: float, upper: float, training: bool, inplace: bool) -> Tensor:
    check_tensor(input, name)
    array = input._array
    if not DTYPE_OF[array.dtype].is_floating_point:
        raise no_kernel("rrelu_with_noise_out_cpu", input)
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if training:
        noise = stream_of(None, input).slopes_below_zero(array, lower, upper)
    else:
        noise = np.where(array <= 0, (lower + upper) / 2, 1).astype(array.dtype)
    if inplace:
        return apply_in_place(rules.rrelu_with_noise_, input, wrap(noise))
    return apply(rules.rrelu_with_noise, input, wrap(noise))


@public
def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu whose slope is drawn for each element while training, and the middle of the range otherwise."""
    return _random_relu("rrelu", input, lower, upper, training, inplace)


@public
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """In-place rrelu."""
    return _random_relu("rrelu_", input, lower, upper, training, True)


@public
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((logits + Gumbel noise) / tau): a soft draw of a class, or a hard one that passes soft gradients."""
    check_tensor(logits, "empty_like")
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    array = logits._array
    if not logits.dtype.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. Its dtype is a floating point one, not "
            f"{logits.dtype.scalar_name}"
        )
    drawn = stream_of(None, logits).exponential(array.size, dtype=array.dtype)
    noise = wrap(drawn.reshape(array.shape))
    soft = softmax((logits + -noise.log()) / tau, dim)
    if not hard:
        return soft
    axis, shape = dim % soft._array.ndim, soft._array.shape
    places = np.arange(shape[axis]).reshape([-1 if each == axis else 1 for each in range(len(shape))])
    chosen = (soft._array.argmax(axis=axis, keepdims=True) == places).astype(soft._array.dtype)
    return wrap(chosen) - soft.detach() + soft
