"""Elementwise rules: arithmetic, powers, exponentials, rounding, extremes, and the three-input ones.

Where a function has a kink or a jump its gradient is PyTorch's choice: 0 for `abs` at 0, a half each for a tie of
`maximum`, all of it at a bound of `clamp`.
"""

from __future__ import annotations

import builtins
import cmath
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

LOG_2 = math.log(2)
LOG_10 = math.log(10)


def nothing(xp: Namespace, g: Array) -> Array:
    """Return the gradient of a function that is flat wherever it is smooth."""
    return xp.zeros_like(g)


# --- arithmetic

add = op("add", lambda xp, self, other: self + other, promote="numeric", shows={"alpha": 1},
         self=lambda g: g, other=lambda g: g)  # fmt: skip

add_scaled = op("add", lambda xp, self, other, *, alpha: self + alpha * other, promote="numeric",
                self=lambda g: g, other=lambda g, alpha: g * alpha)  # fmt: skip

sub = op("sub", lambda xp, self, other: self - other, promote="numeric", accepts="ifc", shows={"alpha": 1},
         self=lambda g: g, other=lambda g: -g)  # fmt: skip

sub_scaled = op("sub", lambda xp, self, other, *, alpha: self - alpha * other, promote="numeric", accepts="ifc",
                self=lambda g: g, other=lambda g, alpha: -g * alpha)  # fmt: skip

rsub = op("rsub", lambda xp, self, other, *, alpha: other - alpha * self, promote="numeric", accepts="ifc",
          self=lambda g, alpha: -g * alpha, other=lambda g: g)  # fmt: skip

rsub_tensor = op("rsub", lambda xp, self, other: other - self, promote="numeric", accepts="ifc", shows={"alpha": 1},
                 self=lambda g: -g, other=lambda g: g)  # fmt: skip

rsub_number_scaled = op("rsub", lambda xp, self, other, *, alpha: other - alpha * self, promote="numeric",
                        accepts="ifc", node="RsubBackward1", self=lambda g, alpha: -g * alpha)  # fmt: skip

rsub_number = op("rsub", lambda xp, self, other: other - self, promote="numeric", accepts="ifc", node="RsubBackward1",
                 shows={"alpha": 1}, self=lambda g: -g)  # fmt: skip

mul = op("mul", lambda xp, self, other: self * other, promote="numeric",
         self=lambda g, other: g * other,
         other=lambda g, self: g * self)  # fmt: skip

div = op("div", lambda xp, self, other: self / other, promote="float",
         self=lambda g, other: g / other,
         other=lambda g, self, other: -g * ((self / other) / other))  # fmt: skip

div_floor = op("div", lambda xp, self, other, *, rounding_mode: xp.floor_divide(self, other), promote="numeric",
               accepts="if", node="DivBackward2", keeps=("other", "self"), self=nothing, other=nothing)  # fmt: skip

div_trunc = op("div", lambda xp, self, other, *, rounding_mode: xp.trunc_divide(self, other), promote="numeric",
               accepts="if", node="DivBackward2", keeps=("other", "self"), self=nothing, other=nothing)  # fmt: skip

div_exact = op("div", lambda xp, self, other, *, rounding_mode: self / other, promote="float", node="DivBackward2",
               self=lambda g, other: g / other,
               other=lambda g, self, other: -g * ((self / other) / other))  # fmt: skip

remainder = op("remainder", lambda xp, self, other: xp.remainder(self, other), promote="numeric", accepts="if",
               node="RemainderBackward1", self=lambda g: g,
               other=lambda xp, g, self, other: -g * xp.floor_divide(self, other))  # fmt: skip

remainder_number = op("remainder", lambda xp, self, other: xp.remainder(self, other), promote="numeric", accepts="if",
                      self=lambda g: g)  # fmt: skip

fmod = op("fmod", lambda xp, self, other: xp.fmod(self, other), promote="numeric", accepts="if", node="FmodBackward1",
          self=lambda g: g,
          other=lambda xp, g, self, other: -g * xp.trunc_divide(self, other))  # fmt: skip

fmod_number = op("fmod", lambda xp, self, other: xp.fmod(self, other), promote="numeric", accepts="if",
                 self=lambda g: g)  # fmt: skip

neg = op("neg", lambda xp, self: -self, promote="numeric", accepts="ifc", self=lambda g: -g)

reciprocal = op("reciprocal", lambda xp, self: 1 / self, promote="float", self=lambda g, result: -g * (result * result))

# --- powers


def power_slope(xp: Namespace, g: Any, x: Array, exponent: Any) -> Array:
    """Return n xⁿ⁻¹; recorded, x¹ and x⁰ stay powers, so that even a constant derivative has a graph."""
    if exponent == 0 and exponent is not False:
        return xp.zeros_like(g)
    return g * (x * 2) if exponent == 2 and not xp.RECORDED else g * (exponent * xp.power(x, exponent - 1))


pow_number = op("pow", lambda xp, self, *, exponent: xp.power(self, exponent), promote="numeric",
                self=lambda xp, g, self, exponent: power_slope(xp, g, self, exponent))  # fmt: skip

pow = op("pow", lambda xp, self, exponent: xp.power(self, exponent), promote="numeric", accepts="ifc",
         node="PowBackward1",
         self=lambda xp, g, self, exponent: xp.where(exponent == 0, 0, g * (exponent * xp.power(self, exponent - 1))),
         exponent=lambda xp, g, self, exponent, result: g * xp.where(
             xp.logical_and(self == 0, xp.real(exponent) >= 0), 0, result * xp.log(self)))  # fmt: skip

pow_of_number = op("pow", lambda xp, exponent, *, self: xp.in_rows(xp.power(self, exponent)), promote="numeric",
                   accepts="ifc", rows=True, node="PowBackward2",
                   exponent=lambda xp, g, self, exponent, result: (
                       xp.where(xp.real(exponent) >= 0, 0, g * (result * -math.inf)) if self == 0
                       else g * (result * log_of_base(xp, self, result))))  # fmt: skip


def log_of_base(xp: Namespace, base: Any, result: Array) -> Any:
    """Return log(base) in the dtype of the power: a negative base has none among the reals."""
    if xp.dtype_of(result).kind == "c":
        return cmath.log(base)
    return math.log(base) if base > 0 else math.nan


square = op("pow", lambda xp, self: self * self, promote="numeric", accepts="ifc", node="PowBackward0",
            shows={"exponent": 2}, self=lambda xp, g, self: power_slope(xp, g, self, 2))  # fmt: skip

sqrt = op("sqrt", lambda xp, self: xp.sqrt(self), promote="float", self=lambda g, result: g / (2 * result))

rsqrt = op("rsqrt", lambda xp, self: 1 / xp.sqrt(self), promote="float",
           self=lambda g, result: -0.5 * g * (result * result * result))  # fmt: skip

# --- exponentials and logarithms

exp = op("exp", lambda xp, self: xp.exp(self), promote="float", self=lambda g, result: g * result)

exp2 = op("exp2", lambda xp, self: xp.exp2(self), promote="float", self=lambda g, result: g * result * LOG_2)

expm1 = op("expm1", lambda xp, self: xp.expm1(self), promote="float", self=lambda g, result: g * (result + 1))

log = op("log", lambda xp, self: xp.log(self), promote="float", self=lambda g, self: g / self)

log2 = op("log2", lambda xp, self: xp.log2(self), promote="float", self=lambda g, self: g / (self * LOG_2))

log10 = op("log10", lambda xp, self: xp.log10(self), promote="float", self=lambda g, self: g / (self * LOG_10))

log1p = op("log1p", lambda xp, self: xp.log1p(self), promote="float", node="Log1PBackward0",
           self=lambda g, self: g / (self + 1))  # fmt: skip

logaddexp = op("logaddexp", lambda xp, self, other: xp.logaddexp(self, other), promote="numeric", accepts="fc",
               self=lambda xp, g, self, other: g / (1 + xp.exp(other - self)),
               other=lambda xp, g, self, other: g / (1 + xp.exp(self - other)))  # fmt: skip

logaddexp2 = op("logaddexp2", lambda xp, self, other: xp.logaddexp2(self, other), promote="numeric", accepts="f",
                self=lambda xp, g, self, other: g / (1 + xp.exp2(other - self)),
                other=lambda xp, g, self, other: g / (1 + xp.exp2(self - other)))  # fmt: skip

# --- magnitude and sign

abs = op("abs", lambda xp, self: xp.abs(self), promote="numeric", accepts="ifc", holomorphic=False,
         self=lambda xp, g, self: g * xp.sign(self))  # fmt: skip

sign = op("sign", lambda xp, self: xp.sign(self), promote="numeric", accepts="bif", self=nothing)

sgn = op("sgn", lambda xp, self: xp.sign(self), promote="numeric", holomorphic=False,
         self=lambda xp, g, self, result: turn(xp, g, self, result))  # fmt: skip


def turn(xp: Namespace, g: Array, x: Array, direction: Array) -> Array:
    """Return the gradient of x / |x|: the part of g perpendicular to x, over |x|; 0 on the real line and at 0."""
    if xp.dtype_of(x).kind != "c":
        return xp.zeros_like(g)
    size = xp.abs(x)
    across = g - direction * xp.real(g * xp.conj(direction))
    return xp.where(size == 0, 0, across / xp.where(size == 0, 1, size))


copysign = op("copysign", lambda xp, self, other: xp.copysign(self, other), promote="float", accepts="bif",
              self=lambda xp, g, self, result: g * xp.where(self == 0, 0, result / self),
              other=nothing)  # fmt: skip

copysign_number = op("copysign", lambda xp, self, other: xp.copysign(self, other), promote="float", accepts="bif",
                     node="CopysignBackward1",
                     self=lambda xp, g, self, result: g * xp.where(self == 0, 0, result / self))  # fmt: skip

# --- rounding

round = op("round", lambda xp, self: xp.rint(self), promote="numeric", accepts="if", self=nothing)

round_decimals = op("round", lambda xp, self, *, decimals: xp.round(self, decimals), promote="numeric", accepts="f",
                    node="RoundBackward1", self=nothing)  # fmt: skip

floor = op("floor", lambda xp, self: xp.floor(self), promote="numeric", accepts="if", self=nothing)

ceil = op("ceil", lambda xp, self: xp.ceil(self), promote="numeric", accepts="if", self=nothing)

trunc = op("trunc", lambda xp, self: xp.trunc(self), promote="numeric", accepts="if", self=nothing)

frac = op("frac", lambda xp, self: self - xp.trunc(self), promote="numeric", accepts="f", self=lambda g: g)

nextafter = op("nextafter", lambda xp, self, other: xp.nextafter(self, other), promote="numeric", accepts="f",
               self=lambda g: g, other=nothing)  # fmt: skip

ldexp = op("ldexp", lambda xp, self, other: self * xp.exp2(other), promote="float",
           self=lambda xp, g, other: g * xp.power(2, other),  # 0 for a negative integer, as in PyTorch
           other=lambda g, result: g * (result * LOG_2))  # fmt: skip

frexp = op("frexp", lambda xp, self: xp.frexp(self), promote="numeric", accepts="f", outputs=2, differentiable=1,
           names=("mantissa", "exponent"),
           self=lambda xp, g, exponent: g[0] / xp.astype(xp.exp2(exponent), xp.dtype_of(g[0])))  # fmt: skip

# --- maximum and minimum


def halved_at_ties(xp: Namespace, g: Array, self: Array, other: Array) -> Array:
    """Split a gradient evenly between two equal inputs."""
    return xp.where(self == other, g / 2, g)


maximum = op(
    "maximum",
    lambda xp, self, other: xp.maximum(self, other),
    promote="numeric",
    accepts="bif",
    self=lambda xp, g, self, other: xp.masked_fill(halved_at_ties(xp, g, self, other), self < other, 0),
    other=lambda xp, g, self, other: xp.masked_fill(halved_at_ties(xp, g, self, other), other < self, 0),
)

minimum = op(
    "minimum",
    lambda xp, self, other: xp.minimum(self, other),
    promote="numeric",
    accepts="bif",
    self=lambda xp, g, self, other: xp.masked_fill(halved_at_ties(xp, g, self, other), self > other, 0),
    other=lambda xp, g, self, other: xp.masked_fill(halved_at_ties(xp, g, self, other), other > self, 0),
)

fmax = op("fmax", lambda xp, self, other: xp.fmax(self, other), promote="numeric", accepts="bif",
          self=lambda xp, g, self, other: xp.where(xp.logical_or(self >= other, xp.isnan(other)), g, 0),
          other=lambda xp, g, self, other: xp.where(xp.logical_or(self >= other, xp.isnan(other)), 0, g))  # fmt: skip

fmin = op("fmin", lambda xp, self, other: xp.fmin(self, other), promote="numeric", accepts="bif",
          self=lambda xp, g, self, other: xp.where(xp.logical_or(self <= other, xp.isnan(other)), g, 0),
          other=lambda xp, g, self, other: xp.where(xp.logical_or(self <= other, xp.isnan(other)), 0, g))  # fmt: skip


def bounded(xp: Namespace, x: Array, low: object, high: object) -> Array:
    """Return x clamped to [low, high]; either may be None, and high wins where they cross."""
    x = x if low is None else xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


def inside(xp: Namespace, g: Array, x: Array, low: object, high: object) -> Array:
    """Return g where x was within its bounds."""
    if low is None:
        return xp.where(x <= high, g, 0)
    return xp.where(x >= low if high is None else xp.logical_and(x >= low, x <= high), g, 0)


clamp_numbers = op("clamp", lambda xp, self, *, min, max: bounded(xp, self, min, max), promote="numeric", accepts="bif",
                   node="ClampBackward1",
                   self=lambda xp, g, self, min, max: inside(xp, g, self, min, max))  # fmt: skip

clamp = op("clamp", lambda xp, self, min, max: bounded(xp, self, min, max), promote="numeric", accepts="bif",
           self=lambda xp, g, self, min, max: inside(xp, g, self, min, max),
           min=lambda xp, g, self, min, max: xp.where(
               self < min if max is None else xp.logical_and(self < min, min < max), g, 0),
           max=lambda xp, g, self, min, max: xp.where(
               self > max if min is None else xp.logical_or(self > max, max < min), g, 0))  # fmt: skip

clamp_min_number = op("clamp_min", lambda xp, self, *, min: xp.maximum(self, min), promote="numeric", accepts="bif",
                      self=lambda xp, g, self, min: xp.where(self >= min, g, 0))  # fmt: skip

clamp_max_number = op("clamp_max", lambda xp, self, *, max: xp.minimum(self, max), promote="numeric", accepts="bif",
                      self=lambda xp, g, self, max: xp.where(self <= max, g, 0))  # fmt: skip

clamp_min = op("clamp_min", lambda xp, self, min: xp.maximum(self, min), promote="numeric", accepts="bif",
               node="ClampMinBackward1",
               self=lambda xp, g, self, min: xp.where(self >= min, g, 0),
               min=lambda xp, g, self, min: xp.where(self < min, g, 0))  # fmt: skip

clamp_max = op("clamp_max", lambda xp, self, max: xp.minimum(self, max), promote="numeric", accepts="bif",
               node="ClampMaxBackward1",
               self=lambda xp, g, self, max: xp.where(self <= max, g, 0),
               max=lambda xp, g, self, max: xp.where(self > max, g, 0))  # fmt: skip

# --- three inputs

lerp_number = op("lerp", lambda xp, self, end, *, weight: (
                     self + weight * (end - self) if builtins.abs(weight) < 0.5 else end - (end - self) * (1 - weight)),
                 promote="numeric", accepts="fc",
                 self=lambda g, weight: g * (1 - weight), end=lambda g, weight: g * weight)  # fmt: skip

lerp = op("lerp", lambda xp, self, end, weight: xp.where(
              xp.abs(weight) < 0.5, self + weight * (end - self), end - (end - self) * (1 - weight)),
          promote="numeric", accepts="fc", node="LerpBackward1",
          self=lambda g, weight: g * (1 - weight), end=lambda g, weight: g * weight,
          weight=lambda g, self, end: g * (end - self))  # fmt: skip

addcmul = op("addcmul", lambda xp, self, tensor1, tensor2, *, value: self + (value * tensor1) * tensor2,
             promote="numeric", accepts="ifc",
             self=lambda g: g,
             tensor1=lambda g, tensor2, value: g * (tensor2 * value),
             tensor2=lambda g, tensor1, value: g * (tensor1 * value))  # fmt: skip

addcdiv = op("addcdiv", lambda xp, self, tensor1, tensor2, *, value: self + (value * tensor1) / tensor2,
             promote="numeric", accepts="fc",
             self=lambda g: g,
             tensor1=lambda g, tensor2, value: g * (value / tensor2),
             tensor2=lambda g, tensor1, tensor2, value: -g * (value * tensor1 / (tensor2 * tensor2)))  # fmt: skip

# --- functions that PyTorch does not differentiate


def not_differentiated(name: str) -> Callable[..., Any]:
    """Return a gradient that raises PyTorch's refusal."""

    def refuse(g: Array) -> None:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return refuse


def no_derivative(name: str) -> Callable[..., Any]:
    """Return a gradient that raises the refusal of an op, or of one input, recorded under PyTorch's own name."""

    def refuse(g: Array) -> NoReturn:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return refuse


NOT_IMPLEMENTED = "torch::autograd::NotImplemented"

floor_divide = op("div_floor", lambda xp, self, other: xp.floor_divide(self, other), promote="numeric", accepts="if",
                  node=NOT_IMPLEMENTED,
                  self=not_differentiated("floor_divide"), other=not_differentiated("floor_divide"))  # fmt: skip

floor_divide_ = op("div_floor", lambda xp, self, other: xp.floor_divide(self, other), promote="numeric", accepts="if",
                   node=NOT_IMPLEMENTED,
                   self=not_differentiated("floor_divide_"), other=not_differentiated("floor_divide_"))  # fmt: skip

remainder_of_number = op("remainder", lambda xp, self, other: xp.remainder(self, other), promote="numeric",
                         accepts="if", node=NOT_IMPLEMENTED, other=not_differentiated("remainder"))  # fmt: skip

heaviside = op("heaviside", lambda xp, self, values: xp.heaviside(self, values), promote="numeric", accepts="bif",
               node=NOT_IMPLEMENTED, self=not_differentiated("heaviside"),
               values=not_differentiated("heaviside"))  # fmt: skip

heaviside_ = op("heaviside", lambda xp, self, values: xp.heaviside(self, values), promote="numeric", accepts="bif",
                node=NOT_IMPLEMENTED, self=not_differentiated("heaviside_"),
                values=not_differentiated("heaviside_"))  # fmt: skip
