"""Rules of the special functions: sigmoid and logit, the families of the error and the gamma function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from undertow._src.rules.elementwise import no_derivative, not_differentiated
from undertow._src.rules.rule import Rule, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)

sigmoid = op("sigmoid", lambda xp, self: xp.sigmoid(self), promote="float",
             self=lambda g, result: g * ((1 - result) * result),
             recorded={"self": lambda g, result: sigmoid_backward.run(g, result)})  # fmt: skip

sigmoid_backward: Rule = op("sigmoid_backward", lambda xp, grad_output, output: grad_output * ((1 - output) * output),
                            promote="numeric", node="SigmoidBackwardBackward0",
                            grad_output=lambda g, output: g * ((1 - output) * output),
                            output=lambda g, grad_output, output: g * grad_output * (output * -2 + 1),
                            recorded={"grad_output": lambda g, output: sigmoid_backward.run(g, output)})  # fmt: skip

logit = op("logit", lambda xp, self, *, eps: xp.logit(self if eps is None else kept_off(xp, self, eps)), promote="float",
           accepts="bif", self=lambda xp, g, self, eps: logit_slope(xp, g, self, eps))  # fmt: skip


def kept_off(xp: Namespace, x: Array, eps: float) -> Array:
    """x moved into [eps, 1 − eps]."""
    return xp.minimum(xp.maximum(x, eps), 1 - eps)


def logit_slope(xp: Namespace, g: Array, x: Array, eps: float | None) -> Array:
    low, beyond = (0, math.nan) if eps is None else (eps, 0)
    within = xp.logical_and(x >= low, x <= 1 - low)
    return xp.where(within, g / (x * (1 - x)), beyond)


erf = op("erf", lambda xp, self: xp.erf(self), promote="float", accepts="bif",
         self=lambda xp, g, self: g * (TWO_OVER_ROOT_PI * xp.exp(-(self * self))))  # fmt: skip

erfc = op("erfc", lambda xp, self: xp.erfc(self), promote="float", accepts="bif",
          self=lambda xp, g, self: g * (-TWO_OVER_ROOT_PI * xp.exp(-(self * self))))  # fmt: skip

erfinv = op("erfinv", lambda xp, self: xp.erfinv(self), promote="float", accepts="bif",
            self=lambda xp, g, self: g * (xp.exp(xp.square(xp.erfinv(self))) / TWO_OVER_ROOT_PI))  # fmt: skip

erfcx = op("special_erfcx", lambda xp, self: xp.erfcx(self), promote="float", accepts="bif",
           self=lambda g, self, result: g * (2 * self * result - TWO_OVER_ROOT_PI))  # fmt: skip

ndtri = op("special_ndtri", lambda xp, self: xp.ndtri(self), promote="float", accepts="bif",
           self=lambda xp, g, result: g * (math.sqrt(2 * math.pi) * xp.exp(result * result / 2)))  # fmt: skip

log_ndtr = op("special_log_ndtr", lambda xp, self: xp.log_ndtr(self), promote="float", accepts="bif",
              self=lambda xp, g, self: g * (math.sqrt(2 / math.pi) / xp.erfcx(self * -math.sqrt(0.5))))  # fmt: skip

ndtr = op("special_ndtr", lambda xp, self: xp.ndtr(self), promote="float", accepts="bif", node="MulBackward1",
          self=lambda xp, g, self: g * (xp.exp(-0.5 * (self * self)) / math.sqrt(2 * math.pi)))  # fmt: skip

lgamma = op("lgamma", lambda xp, self: xp.lgamma(self), promote="float", accepts="bif",
            self=lambda xp, g, self: g * xp.digamma(self))  # fmt: skip

digamma = op("digamma", lambda xp, self: xp.digamma(self), promote="float", accepts="bif",
             self=lambda xp, g, self: g * xp.polygamma(1, self))  # fmt: skip

polygamma = op("polygamma", lambda xp, self, *, n: xp.polygamma(n, self) if n else xp.digamma(self), promote="float",
               accepts="bif", self=lambda xp, g, self, n: g * xp.polygamma(n + 1, self))  # fmt: skip

polygamma_ = op("polygamma", lambda xp, self, *, n: xp.polygamma(n, self) if n else xp.digamma(self), promote="float",
                accepts="bif", node="PolygammaBackward1",
                self=lambda xp, g, self, n: g * xp.polygamma(n + 1, self))  # fmt: skip

i0 = op("i0", lambda xp, self: xp.i0(self), promote="float", accepts="bif",
        self=lambda xp, g, self: g * xp.i1(self))  # fmt: skip

i0e = op("special_i0e", lambda xp, self: xp.i0e(self), promote="float", accepts="bif", node="SpecialI0EBackward0",
         self=lambda xp, g, self, result: g * (xp.i1e(self) - xp.sign(self) * result))  # fmt: skip

i1 = op("special_i1", lambda xp, self: xp.i1(self), promote="float", accepts="bif",
        self=lambda xp, g, self, result: g * i1_slope(xp, xp.i0(self), self, result))  # fmt: skip

i1e = op("special_i1e", lambda xp, self: xp.i1e(self), promote="float", accepts="bif", node="SpecialI1EBackward0",
         self=lambda xp, g, self, result: g * (
             i1_slope(xp, xp.i0e(self), self, result) - xp.sign(self) * result))  # fmt: skip


def i1_slope(xp: Namespace, zeroth: Array, x: Array, first: object) -> Array:
    """I₀ − I₁/x, whose limit at 0 is ½."""
    return xp.where(x == 0, 0.5, zeroth - first / xp.where(x == 0, 1, x))


entr = op("special_entr", lambda xp, self: xp.where(
              xp.logical_or(xp.isnan(self), self > 0), -self * xp.log(self),
              xp.where(self == 0, xp.zeros_like(self), -math.inf)),
          promote="float", accepts="bif",
          self=lambda xp, g, self: g * (-1 - xp.log(self)))  # fmt: skip


def times_log(xp: Namespace, x: Array, y: Array) -> Array:
    """x log y, which is 0 for x = 0 unless y is nan."""
    return xp.where(xp.logical_and(x == 0, xp.logical_not(xp.isnan(y))), 0, x * xp.log(y))


def by_slope(xp: Namespace, g: Array, other: Array, slope: object, flat: Array) -> Array:
    """Return g times a slope: 0 where it is 0; and for g = 0 even if the slope is infinite or nan, unless other is nan."""
    steep = xp.logical_not(xp.logical_or(xp.isfinite(slope), xp.isnan(other)))
    return g * xp.where(xp.logical_or(flat, xp.logical_and(g == 0, steep)), 0, slope)


xlogy = op("xlogy", lambda xp, self, other: times_log(xp, self, other), promote="float", accepts="bif",
           self=lambda xp, g, self, other: by_slope(xp, g, other, xp.log(other), xp.logical_and(self == 0, other <= 0)),
           other=lambda g, self, other: g * self / other)  # fmt: skip

xlogy_of_number = op("xlogy", lambda xp, self, other: times_log(xp, self, other), promote="float", accepts="bif",
                     node="XlogyBackward1", other=lambda g, self, other: g * self / other)  # fmt: skip

xlogy_number = op("xlogy", lambda xp, self, other: times_log(xp, self, other), promote="float", accepts="bif",
                  node="XlogyBackward2",
                  self=lambda xp, g, self, other: by_slope(
                      xp, g, other, xp.log(other), xp.logical_and(self == 0, other <= 0)))  # fmt: skip


def times_log1p(xp: Namespace, x: Array, y: Array) -> Array:
    """x log(1 + y), which is 0 for x = 0 unless y is nan."""
    return xp.where(xp.logical_and(x == 0, xp.logical_not(xp.isnan(y))), 0, x * xp.log1p(y))


xlog1py = op("special_xlog1py", lambda xp, self, other: times_log1p(xp, self, other), promote="float", accepts="bif",
             node="SpecialXlog1PyBackward0",
             self=lambda xp, g, self, other: by_slope(
                 xp, g, other, xp.log1p(other), xp.logical_and(self == 0, other <= -1)),
             other=lambda g, self, other: g * self / (other + 1))  # fmt: skip

xlog1py_of_number = op("special_xlog1py", lambda xp, self, other: times_log1p(xp, self, other), promote="float",
                       accepts="bif", node="SpecialXlog1PyBackward1",
                       other=lambda g, self, other: g * self / (other + 1))  # fmt: skip

xlog1py_number = op("special_xlog1py", lambda xp, self, other: times_log1p(xp, self, other), promote="float",
                    accepts="bif", node="SpecialXlog1PyBackward2",
                    self=lambda xp, g, self, other: by_slope(
                        xp, g, other, xp.log1p(other), xp.logical_and(self == 0, other <= -1)))  # fmt: skip

zeta = op("special_zeta", lambda xp, self, other: xp.zeta(self, other), promote="float", accepts="bif",
          self=not_differentiated("zeta"),
          other=lambda xp, g, self, other: g * -self * xp.zeta(self + 1, other))  # fmt: skip

zeta_of_number = op("special_zeta", lambda xp, self, other: xp.zeta(self, other), promote="float", accepts="bif",
                    node="SpecialZetaBackward1",
                    other=lambda xp, g, self, other: g * -self * xp.zeta(self + 1, other))  # fmt: skip

zeta_number = op("special_zeta", lambda xp, self, other: xp.zeta(self, other), promote="float", accepts="bif",
                 node="SpecialZetaBackward2", self=not_differentiated("zeta"))  # fmt: skip


def gamma_density(xp: Namespace, a: Array, x: Array) -> Array:
    """xᵃ⁻¹ e⁻ˣ / Γ(a): the slope of igamma along x."""
    return xp.exp((a - 1) * xp.log(x) - x - xp.lgamma(a))


igamma = op("igamma", lambda xp, self, other: xp.igamma(self, other), promote="numeric", accepts="f",
            self=no_derivative("igamma: input"),
            other=lambda xp, g, self, other: g * gamma_density(xp, self, other))  # fmt: skip

igammac = op("igammac", lambda xp, self, other: xp.igammac(self, other), promote="numeric", accepts="f",
             self=no_derivative("igammac: input"),
             other=lambda xp, g, self, other: -g * gamma_density(xp, self, other))  # fmt: skip

mvlgamma = op("mvlgamma", lambda xp, self, *, p: xp.in_rows(p * (p - 1) / 4 * math.log(math.pi) + sum(
                  xp.lgamma(self - j / 2) for j in range(p))), promote="float", accepts="bif", rows=True,
              self=lambda xp, g, self, p: g * sum(xp.digamma(self - j / 2) for j in range(p)))  # fmt: skip

# --- integers

gcd = op("gcd", lambda xp, self, other: xp.gcd(self, other), promote="numeric", accepts="i")
lcm = op("lcm", lambda xp, self, other: xp.lcm(self, other), promote="numeric", accepts="i")
