"""Trigonometric and hyperbolic rules, their inverses, and angles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from undertow._src.rules.rule import Rule, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

PI = math.pi

sin = op("sin", lambda xp, self: xp.sin(self), promote="float", self=lambda xp, g, self: g * xp.cos(self))

cos = op("cos", lambda xp, self: xp.cos(self), promote="float", self=lambda xp, g, self: -g * xp.sin(self))

tan = op("tan", lambda xp, self: xp.tan(self), promote="float", self=lambda g, result: g * (1 + result * result))

asin = op("asin", lambda xp, self: xp.arcsin(self), promote="float",
          self=lambda xp, g, self: g / xp.sqrt(1 - self * self))  # fmt: skip

acos = op("acos", lambda xp, self: xp.arccos(self), promote="float",
          self=lambda xp, g, self: -g / xp.sqrt(1 - self * self))  # fmt: skip

atan = op("atan", lambda xp, self: xp.arctan(self), promote="float", self=lambda g, self: g / (self * self + 1))

sinh = op("sinh", lambda xp, self: xp.sinh(self), promote="float", self=lambda xp, g, self: g * xp.cosh(self))

cosh = op("cosh", lambda xp, self: xp.cosh(self), promote="float", self=lambda xp, g, self: g * xp.sinh(self))

tanh = op("tanh", lambda xp, self: xp.tanh(self), promote="float", self=lambda g, result: g * (1 - result * result),
          recorded={"self": lambda g, result: tanh_backward.run(g, result)})  # fmt: skip

tanh_backward: Rule = op("tanh_backward", lambda xp, grad_output, output: grad_output * (1 - output * output),
                         promote="numeric", node="TanhBackwardBackward0",
                         grad_output=lambda g, output: g * (1 - output * output),
                         output=lambda g, grad_output, output: g * (output * -2 * grad_output),
                         recorded={"grad_output": lambda g, output: tanh_backward.run(g, output)})  # fmt: skip

asinh = op("asinh", lambda xp, self: xp.arcsinh(self), promote="float",
           self=lambda xp, g, self: g / xp.sqrt(self * self + 1))  # fmt: skip

acosh = op("acosh", lambda xp, self: xp.arccosh(self), promote="float",
           self=lambda xp, g, self: g / acosh_root(xp, self))  # fmt: skip

atanh = op("atanh", lambda xp, self: xp.arctanh(self), promote="float", self=lambda g, self: g / (1 - self * self))


def acosh_root(xp: Namespace, x: Array) -> Array:
    """√(x² − 1), on the branch that acosh takes in the complex plane."""
    if xp.dtype_of(x).kind == "c":
        return xp.sqrt(x - 1) * xp.sqrt(x + 1)
    return xp.sqrt(x * x - 1)


# xp.negative instead of a minus: saved values may be bools, whose negation PyTorch refuses.
atan2 = op("atan2", lambda xp, self, other: xp.arctan2(self, other), promote="float", accepts="bif",
           self=lambda xp, g, self, other: g * other * or_zero(xp, self * self + other * other),
           other=lambda xp, g, self, other: g * xp.negative(self) * or_zero(xp, self * self + other * other))  # fmt: skip


def or_zero(xp: Namespace, square: Array) -> Array:
    """Return 1 / square, and 0 at the origin, where the angle is arbitrary."""
    return xp.where(square == 0, 0, 1 / square)


hypot = op("hypot", lambda xp, self, other: xp.hypot(self, other), promote="numeric", accepts="f",
           self=lambda g, self, result: g * (self / result),
           other=lambda g, other, result: g * (other / result))  # fmt: skip

deg2rad = op("deg2rad", lambda xp, self: self * (PI / 180), promote="float", accepts="bif", node="Deg2RadBackward0",
             self=lambda g: g * (PI / 180))  # fmt: skip

rad2deg = op("rad2deg", lambda xp, self: self * (180 / PI), promote="float", accepts="bif", node="Rad2DegBackward0",
             self=lambda g: g * (180 / PI))  # fmt: skip


def sine_over_angle(xp: Namespace, x: Array) -> Array:
    """sin(πx) / πx, and 1 at 0."""
    angle = x * PI
    return xp.where(angle == 0, 1, xp.sin(angle) / xp.where(angle == 0, 1, angle))


def sinc_slope(xp: Namespace, x: Array) -> Array:
    """(πx cos(πx) − sin(πx)) / πx², and 0 at 0."""
    angle = x * PI
    flat = angle * x == 0  # also where the square of a tiny number underflows
    return xp.where(flat, 0, (angle * xp.cos(angle) - xp.sin(angle)) / xp.where(flat, 1, angle * x))


sinc = op("sinc", lambda xp, self: sine_over_angle(xp, self), promote="float",
          self=lambda xp, g, self: g * sinc_slope(xp, self))  # fmt: skip
