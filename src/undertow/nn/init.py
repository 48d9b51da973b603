"""Parameter initialization: the same numbers as PyTorch's for the same seed.

Every function changes its tensor in place, without recording, and returns it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.base import tracer
from undertow._src.base.modes import no_grad, slow_path
from undertow._src.base.sites import user_site, warn
from undertow._src.ops.compare import where
from undertow._src.ops.decompositions import linalg_qr as qr
from undertow._src.overrides import torch_function
from undertow._src.tensor.creation import empty_like
from undertow._src.tensor.creation import eye as _eye
from undertow._tensor import Tensor
from undertow.random import randperm

if TYPE_CHECKING:
    from undertow._src.random.generators import Generator

__all__ = [
    "calculate_gain", "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_", "dirac_",
    "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_",
    "uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal", "kaiming_uniform",
    "kaiming_normal", "orthogonal", "sparse",
]  # fmt: skip

_UNIT_GAIN = frozenset(
    f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3)
) | {"linear", "sigmoid"}  # fmt: skip


def _overridable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an initializer so that `__torch_function__` overrides see its calls, with all arguments as keywords."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    options = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))

    @functools.wraps(function)
    def initializer(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("tensor")
        if (slow_path.count or type(given) not in torch_function.PLAIN) and torch_function.has_override((given,)):
            return torch_function.dispatch(initializer, (), options | dict(zip(names, args, strict=False)) | kwargs)
        return function(*args, **kwargs)

    return initializer


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that scales the weights of a layer so that the variance is kept through this nonlinearity."""
    if nonlinearity in _UNIT_GAIN:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4  # found by experiment, by PyTorch's authors
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


# --- plain distributions


@_overridable
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from U(a, b).

    >>> _ = torch.manual_seed(0)
    >>> torch.nn.init.uniform_(torch.empty(3))
    tensor([0.4963, 0.7682, 0.0885])
    """
    return _no_grad_uniform_(tensor, a, b, generator)


@_overridable
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from N(mean, std²)."""
    return _no_grad_normal_(tensor, mean, std, generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw from N(mean, std²), truncated to [a, b]."""
    return _no_grad_trunc_normal_(tensor, mean, std, a, b, generator)


@_overridable
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    return _no_grad_fill_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return _no_grad_fill_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return _no_grad_zero_(tensor)


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Generator | None = None) -> Tensor:
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Generator | None = None) -> Tensor:
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    with no_grad():
        return tensor.fill_(val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    with no_grad():
        return tensor.zero_()


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None = None
) -> Tensor:
    """Fill by rejection: draw normal values if most lie in [a, b], else uniform ones accepted by density."""
    if tracer.current is not None:
        raise NeedsValue(
            f"trunc_normal_, called at {user_site() or 'an unknown line'}, draws until all values lie in their range, and "
            "values are known only when the program runs. Call it outside of the compiled step."
        )
    if mean < a - 2 * std or mean > b + 2 * std:
        warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_: nearly all values will lie at the bounds.")

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with no_grad():
        if tensor.is_meta:
            return tensor
        if below(b) - below(a) > 0.3:
            low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()  # rounded to the tensor's dtype
            tensor.normal_(mean, std, generator=generator)
            while (outside := (tensor < low) | (tensor > high)).any():
                tensor.copy_(where(outside, empty_like(tensor).normal_(mean, std, generator=generator), tensor))
            return tensor
        nearest = max(a, min(mean, b))
        log_peak = -0.5 * ((nearest - mean) / std) ** 2
        rejected = None
        while rejected is None or rejected.any():
            drawn = empty_like(tensor).uniform_(a, b, generator=generator)
            log_density = drawn.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
            too_rare = empty_like(tensor).uniform_(generator=generator).log_().gt(log_density)
            if rejected is None:
                tensor.copy_(drawn)
                rejected = too_rare
            else:
                tensor.copy_(where(rejected, drawn, tensor))
                rejected = where(rejected, too_rare, rejected)
        return tensor


# --- identities


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.copy_(_eye(*tensor.shape, dtype=tensor.dtype))
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make a convolution's weight the identity on as many channels as possible, in each group."""
    dimensions = tensor.ndimension()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = sizes[0] // groups
    middle = tuple([size // 2 for size in sizes[2:]])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, sizes[1])):
                tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


# --- scaled by the number of inputs and outputs


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return the number of inputs of each output of a weight, and the number of outputs of each input."""
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor of less than two dims")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _bias_bound(weight: Tensor) -> float:
    """Return the bound of a layer's initial bias: 1 / sqrt(fan_in), or 0 without inputs."""
    inputs, _ = _calculate_fan_in_and_fan_out(weight)
    return 1 / math.sqrt(inputs) if inputs else 0.0


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from U(-a, a) with a = gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from N(0, std²) with std = gain * sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return _no_grad_normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@_overridable
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw from U(-b, b) with b = gain * sqrt(3 / fan) (He et al., 2015)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw from N(0, std²) with std = gain / sqrt(fan) (He et al., 2015)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else _no_grad_normal_(tensor, 0, std, generator)


# --- structured


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Make the tensor, flattened to a matrix after its first dim, (semi-)orthogonal (Saxe et al., 2013)."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = qr(drawn.t() if rows < columns else drawn)
        q = q * r.diagonal().sign()  # makes Q uniform over all orthogonal matrices
        tensor.view(rows, columns).copy_(q.t() if rows < columns else q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Draw a matrix from N(0, std²), then set that fraction of each column to zero (Martens, 2010)."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows)[:zeros], column] = 0
    return tensor


# --- deprecated names without the underscore


def _make_deprecate(function: Callable[..., Any]) -> Callable[..., Any]:
    new_name = function.__name__
    old_name = new_name[:-1]

    def alias(*args: Any, **kwargs: Any) -> Any:
        warn(f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.", FutureWarning)
        return function(*args, **kwargs)

    alias.__name__ = alias.__qualname__ = old_name
    alias.__doc__ = f"The old name of {new_name}."
    return alias


uniform = _make_deprecate(uniform_)
normal = _make_deprecate(normal_)
constant = _make_deprecate(constant_)
eye = _make_deprecate(eye_)
dirac = _make_deprecate(dirac_)
xavier_uniform = _make_deprecate(xavier_uniform_)
xavier_normal = _make_deprecate(xavier_normal_)
kaiming_uniform = _make_deprecate(kaiming_uniform_)
kaiming_normal = _make_deprecate(kaiming_normal_)
orthogonal = _make_deprecate(orthogonal_)
sparse = _make_deprecate(sparse_)
