"""Activations and softmax: the functions of `nn.functional`, those that `torch` has too, and tensor methods.

`inplace=True` writes into the input, as the functions with a trailing underscore do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.base.sites import warn
from undertow._src.engine.apply import apply, unary
from undertow._src.engine.arguments import as_element, as_int, check_tensor, must_be, no_kernel, wrap_dim
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops import elementwise
from undertow._src.ops.numbers import as_number, is_number
from undertow._src.ops.public import finish, in_place, public
from undertow._src.ops.shape import reshape
from undertow._src.rules import activation as rules
from undertow._src.rules import convert
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF, INTEGRAL, as_dtype, finfo

if TYPE_CHECKING:
    from undertow._src.types.dtypes import dtype
    from undertow._tensor import Tensor

SELU = {"alpha": 1.6732632423543772848170429916717, "scale": 1.0507009873554804934193349852946, "input_scale": 1}


def _activate(
    name: str, rule: Rule, twin: Rule, input: object, inplace: bool, out: Any = None, **statics: Any
) -> Tensor:
    check_tensor(input, name)
    for position, (argument, value) in enumerate(statics.items(), 2):
        if isinstance(value, str) or value is None:
            raise must_be("Number", value, name, argument, position)
    if inplace:
        return apply_in_place(twin, input, **statics)
    return finish(rule, (input,), out, **statics)


# --- piecewise linear

relu, relu_ = unary(rules.relu, doc="max(x, 0)."), in_place(rules.relu)


@public
def functional_relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return relu_(input) if inplace else relu(input)


@public
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return the input clamped to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _hardtanh("hardtanh", input, min_val, max_val, inplace)


def _hardtanh(name: str, input: Tensor, min_val: float, max_val: float, inplace: bool) -> Tensor:
    check_tensor(input, name)
    min_val, max_val = as_number(min_val), as_number(max_val)
    if DTYPE_OF[input._array.dtype].category <= INTEGRAL:
        min_val, max_val = int(min_val), int(max_val)
    return _activate(name, rules.hardtanh, rules.hardtanh, input, inplace, min_val=min_val, max_val=max_val)


@public
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place hardtanh."""
    return _hardtanh("hardtanh_", input, min_val, max_val, True)


@public
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return _hardtanh("relu6", input, 0, 6, inplace)


@public
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above 0, negative_slope · x below."""
    return _activate("leaky_relu", rules.leaky_relu, rules.leaky_relu_, input, inplace, negative_slope=negative_slope)


@public
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place leaky_relu."""
    return _activate("leaky_relu_", rules.leaky_relu, rules.leaky_relu_, input, True, negative_slope=negative_slope)


@public
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above the threshold, else value."""
    return _threshold("threshold", input, threshold, value, inplace)


@public
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place threshold."""
    return _threshold("threshold_", input, threshold, value, True)


def _threshold(name: str, input: Tensor, threshold: object, value: object, inplace: bool) -> Tensor:
    check_tensor(input, name)
    kind = DTYPE_OF[input._array.dtype]
    limits = {
        argument: given if isinstance(given, str) else as_element(as_number(given), kind)
        for argument, given in (("threshold", threshold), ("value", value))
    }
    return _activate(name, rules.threshold, rules.threshold_, input, inplace, **limits)


@public
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x above 0, weight · x below: one weight for all, or one per channel (dim 1)."""
    check_tensor(input, "prelu")
    check_tensor(weight, "prelu", "weight", 2)
    if input._array.dtype != weight._array.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {DTYPE_OF[input._array.dtype].scalar_name} and "
            f"{DTYPE_OF[weight._array.dtype].scalar_name}"
        )
    ndim, count = input._array.ndim, weight._array.size
    if weight._array.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight._array.ndim}"
        )
    if count != 1:
        if ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input._array.shape[1] if ndim > 1 else 1
        if channels != count:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and channel "
                f"size = {channels}."
            )
    if weight._array.ndim == 1 and ndim != 1:
        size = [1] * ndim
        if ndim > 1:
            size[1] = count
        weight = reshape(weight, tuple(size))
    return apply(rules.prelu, input, weight)


@public
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x outside [-lambd, lambd], 0 inside."""
    return _activate("hardshrink", rules.hardshrink, rules.hardshrink, input, False, out, lambd=lambd)


@public
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x moved towards 0 by lambd."""
    check_tensor(input, "softshrink")
    if is_number(lambd) and lambd < 0:
        kind = DTYPE_OF[input._array.dtype]
        raise RuntimeError(
            f"lambda must be in range [0, {finfo(kind).max:g}] for input dtype {kind.scalar_name}, but found {lambd:g}"
        )
    return _activate("softshrink", rules.softshrink, rules.softshrink, input, False, out, lambd=lambd)


@public
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
    return _activate("hardsigmoid", rules.hardsigmoid, rules.hardsigmoid, input, inplace)


@public
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · hardsigmoid(x)."""
    return _activate("hardswish", rules.hardswish, rules.hardswish, input, inplace)


# --- exponential on one side


@public
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, alpha (eˣ − 1) below."""
    return _activate("elu", rules.elu, rules.elu_, input, inplace, alpha=alpha, scale=1, input_scale=1)


@public
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place elu."""
    return _activate("elu_", rules.elu, rules.elu_, input, True, alpha=alpha, scale=1, input_scale=1)


@public
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu scaled so that it keeps mean 0 and variance 1."""
    return _activate("selu", rules.elu, rules.elu_, input, inplace, **SELU)


@public
def selu_(input: Tensor) -> Tensor:
    """In-place selu."""
    return _activate("selu_", rules.elu, rules.elu_, input, True, **SELU)


@public
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, alpha (e^(x/alpha) − 1) below."""
    return _celu("celu", input, alpha, inplace)


@public
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place celu."""
    return _celu("celu_", input, alpha, True)


def _celu(name: str, input: Tensor, alpha: float, inplace: bool) -> Tensor:
    check_tensor(input, name)
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _activate(name, rules.celu, rules.celu_, input, inplace, alpha=alpha)


@public
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None) -> Tensor:
    """log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold."""
    return _activate("softplus", rules.softplus, rules.softplus, input, False, out, beta=beta, threshold=threshold)


# --- smooth

logsigmoid = unary(rules.log_sigmoid, "log_sigmoid", "log(sigmoid(x)).")
logsigmoid.__module__, logsigmoid.__qualname__ = "undertow.nn.functional", "logsigmoid"


@public
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x · sigmoid(x)."""
    if isinstance(input, TensorCore) and input._requires_grad and input._array.dtype.kind == "c":
        raise RuntimeError("silu does not support automatic differentiation for outputs with complex dtype.")
    return _activate("silu", rules.silu, rules.silu, input, inplace)


@public
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · tanh(softplus(x))."""
    return _activate("mish", rules.mish, rules.mish, input, inplace)


@public
def gelu(input: Tensor, *, approximate: str = "none", out: Tensor | None = None) -> Tensor:
    """x times the normal distribution function at x, exact or by 'tanh'."""
    check_tensor(input, "gelu")
    if not isinstance(approximate, str):
        raise TypeError(f"gelu(): argument 'approximate' must be str, not {type(approximate).__name__}")
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return finish(rules.gelu, (input,), out, approximate=approximate)


@public
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


@public
def tanhshrink(input: Tensor) -> Tensor:
    """x − tanh(x)."""
    return input - input.tanh()


@public
def functional_sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e⁻ˣ)."""
    return input.sigmoid()


@public
def functional_tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    return input.tanh()


# --- along a dim


def _along(name: str, rule: Rule, input: Tensor, dim: object, dtype: object, out: Tensor | None = None) -> Tensor:
    check_tensor(input, name)
    dim = as_int(dim, name, "dim", 2)
    if dtype is not None:
        wanted = as_dtype(dtype, name, "dtype")
        if wanted is not DTYPE_OF[input._array.dtype]:
            input = apply(convert.to_copy, input, dtype=wanted.numpy)
    dim = wrap_dim(dim, input._array.ndim)
    if not DTYPE_OF[input._array.dtype].is_inexact:
        raise no_kernel(f"{name}{'_lastdim' if dim == max(input._array.ndim - 1, 0) else ''}_kernel_impl", input)
    if out is not None:
        rule = rules.softmax_out if rule is rules.softmax else rules.log_softmax_out
    return finish(rule, (input,), out, dim=dim)


@public
def softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """eˣ / Σ eˣ along a dim."""
    return _along("softmax", rules.softmax, input, dim, dtype, out)


@public
def log_softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(softmax(x)) along a dim."""
    return _along("log_softmax", rules.log_softmax, input, dim, dtype, out)


def usual_dim(name: str, ndim: int) -> int:
    """Return the dim that softmax and its relatives take by default, with a warning."""
    warn(f"Implicit dimension choice for {name} has been deprecated. Say which dim: dim=-1, for example.")
    return 0 if ndim in (0, 1, 3) else 1


@public
def functional_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """eˣ / Σ eˣ along a dim."""
    if dim is None:
        dim = usual_dim("softmax", input.ndim)
    return _along("softmax", rules.softmax, input, dim, dtype)


@public
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """softmax(−x)."""
    if dim is None:
        dim = usual_dim("softmin", input.ndim)
    return _along("softmax", rules.softmax, elementwise.neg(input), dim, dtype)


@public
def functional_log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """log(softmax(x)) along a dim."""
    if dim is None:
        dim = usual_dim("log_softmax", input.ndim)
    return _along("log_softmax", rules.log_softmax, input, dim, dtype)


@public
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of a dim times the sigmoid of the second."""
    check_tensor(input, "glu")
    if input._array.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = wrap_dim(as_int(dim, "glu", "dim", 2), input._array.ndim)
    if input._array.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input._array.shape[dim]}")
    return apply(rules.glu, input, dim=dim)


for _function in (functional_relu, functional_sigmoid, functional_tanh, functional_softmax, functional_log_softmax):
    _function.__name__ = _function.__qualname__ = _function.__name__.removeprefix("functional_")
    _function.__module__ = "undertow.nn.functional"


class ActivationMethods:
    """Activations as methods of a tensor."""

    __slots__ = ()

    relu, relu_ = relu, relu_
    prelu, hardshrink, softmax, log_softmax = prelu, hardshrink, softmax, log_softmax
