"""Public elementwise functions of one input, and of two tensors; the tensor methods made of them.

`pair` makes a function and its in-place twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow import return_types
from undertow._src.engine.apply import binary, unary
from undertow._src.engine.arguments import as_int, check_tensor
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.named import run_named
from undertow._src.ops.public import Function, finish, in_place, overloaded, public
from undertow._src.rules import elementwise as rules
from undertow._src.rules import special
from undertow._src.rules import trigonometry as angles
from undertow._src.rules.rule import Rule

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def pair(rule: Rule, name: str = "", check: Function | None = None) -> tuple[Function, Function]:
    """Return a function of one input and its in-place twin, which may have a check of its own."""
    name = name or rule.name
    return unary(rule, name, f"Elementwise {name}."), in_place(rule, name + "_", check=check)


def _refuse_complex(operands: tuple[Any, ...]) -> None:
    if operands[0]._array.dtype.kind == "c":
        raise RuntimeError("In-place abs is not supported for complex tensors.")


abs, abs_ = pair(rules.abs, check=_refuse_complex)
absolute, absolute_ = pair(rules.abs, "absolute", _refuse_complex)
neg, neg_ = pair(rules.neg)
negative, negative_ = pair(rules.neg, "negative")
reciprocal, reciprocal_ = pair(rules.reciprocal)
sqrt, sqrt_ = pair(rules.sqrt)
rsqrt, rsqrt_ = pair(rules.rsqrt)
exp, exp_ = pair(rules.exp)
exp2, exp2_ = pair(rules.exp2)
expm1, expm1_ = pair(rules.expm1)
log, log_ = pair(rules.log)
log2, log2_ = pair(rules.log2)
log10, log10_ = pair(rules.log10)
log1p, log1p_ = pair(rules.log1p)
sign, sign_ = pair(rules.sign)
sgn, sgn_ = pair(rules.sgn)
floor, floor_ = pair(rules.floor)
ceil, ceil_ = pair(rules.ceil)
trunc, trunc_ = pair(rules.trunc)
fix, fix_ = pair(rules.trunc, "fix")
frac, frac_ = pair(rules.frac)

sin, sin_ = pair(angles.sin)
cos, cos_ = pair(angles.cos)
tan, tan_ = pair(angles.tan)
asin, asin_ = pair(angles.asin)
arcsin, arcsin_ = pair(angles.asin, "arcsin")
acos, acos_ = pair(angles.acos)
arccos, arccos_ = pair(angles.acos, "arccos")
atan, atan_ = pair(angles.atan)
arctan, arctan_ = pair(angles.atan, "arctan")
sinh, sinh_ = pair(angles.sinh)
cosh, cosh_ = pair(angles.cosh)
tanh, tanh_ = pair(angles.tanh)
asinh, asinh_ = pair(angles.asinh)
arcsinh, arcsinh_ = pair(angles.asinh, "arcsinh")
acosh, acosh_ = pair(angles.acosh)
arccosh, arccosh_ = pair(angles.acosh, "arccosh")
atanh, atanh_ = pair(angles.atanh)
arctanh, arctanh_ = pair(angles.atanh, "arctanh")
deg2rad, deg2rad_ = pair(angles.deg2rad)
rad2deg, rad2deg_ = pair(angles.rad2deg)
sinc, sinc_ = pair(angles.sinc)

sigmoid, sigmoid_ = pair(special.sigmoid)
erf, erf_ = pair(special.erf)
erfc, erfc_ = pair(special.erfc)
erfinv, erfinv_ = pair(special.erfinv)
lgamma, lgamma_ = pair(special.lgamma)
digamma, digamma_ = pair(special.digamma)
i0, i0_ = pair(special.i0)


# --- of two tensors


def of_two_tensors(rule: Rule, name: str = "") -> Function:
    """Return a function of two tensors, which refuses numbers."""
    name = name or rule.name
    return binary(rule, name, f"Elementwise {name}.", takes="tensors")


maximum, minimum = of_two_tensors(rules.maximum), of_two_tensors(rules.minimum)
fmax, fmin = of_two_tensors(rules.fmax), of_two_tensors(rules.fmin)
atan2, arctan2 = of_two_tensors(angles.atan2), of_two_tensors(angles.atan2, "arctan2")
hypot, nextafter = of_two_tensors(angles.hypot), of_two_tensors(rules.nextafter)
logaddexp, logaddexp2 = of_two_tensors(rules.logaddexp), of_two_tensors(rules.logaddexp2)
ldexp = of_two_tensors(rules.ldexp)
gcd, lcm = of_two_tensors(special.gcd), of_two_tensors(special.lcm)
igamma, igammac = of_two_tensors(special.igamma), of_two_tensors(special.igammac)
ldexp_, gcd_ = in_place(rules.ldexp, takes="tensors"), in_place(special.gcd, takes="tensors")
lcm_ = in_place(special.lcm, takes="tensors")

# --- with further arguments


@public
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 − x)), the inverse of sigmoid; `eps` keeps x off 0 and 1."""
    check_tensor(input, "logit")
    return finish(special.logit, (input,), out, eps=eps)


@public
def logit_(input: Tensor, eps: float | None = None) -> Tensor:
    """In-place logit."""
    check_tensor(input, "logit_")
    return apply_in_place(special.logit, input, eps=eps)


@public
def polygamma(n: int, input: object, *, out: Any = None) -> Tensor:
    """Return the n-th derivative of digamma."""
    check_tensor(input, "polygamma", position=2)
    n = as_int(n, "polygamma", "n", 1)
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return finish(special.polygamma, (input,), out, n=n)


@public
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension p."""
    check_tensor(input, "mvlgamma")
    return finish(special.mvlgamma, (input,), out, p=_dimension(p))


@public
def mvlgamma_(self: Tensor, p: int) -> Tensor:
    """In-place mvlgamma."""
    return apply_in_place(special.mvlgamma, self, p=_dimension(p))


def _dimension(p: object) -> int:
    p = as_int(p, "mvlgamma", "p", 2)
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    return p


@overloaded
def round(input: Tensor, *, decimals: int | None = None, out: Tensor | None = None) -> Tensor:
    """Round to the nearest integer, or to a number of decimals; halves to the even side."""
    check_tensor(input, "round")
    if decimals is None:
        return finish(rules.round, (input,), out)
    return finish(rules.round_decimals, (input,), out, decimals=decimals)


@public
def round_(input: Tensor, *, decimals: int | None = None) -> Tensor:
    """In-place round."""
    if decimals is None:
        return apply_in_place(rules.round, input)
    return apply_in_place(rules.round_decimals, input, decimals=decimals)


@public
def positive(input: Tensor) -> Tensor:
    """Return the input itself."""
    check_tensor(input, "positive")
    if input._array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@public
def frexp(input: Tensor, *, out: tuple[Tensor, ...] | None = None) -> Any:
    """Mantissas in [½, 1) and exponents with input = mantissa · 2^exponent."""
    check_tensor(input, "frexp")
    return run_named(return_types.frexp, "frexp", out, rules.frexp, input)


@public
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below zero, 1 above, `values` at zero."""
    for place, given in enumerate((input, values)):
        check_tensor(given, "heaviside", ("input", "values")[place], place + 1)
    _check_heaviside((input, values) if out is None else (input, values, out))
    return finish(rules.heaviside, (input, values), out)


def _check_heaviside(operands: tuple[Any, ...]) -> None:
    kinds = [given.dtype for given in operands]
    if any(kind.is_complex for kind in kinds):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if len(set(kinds)) > 1:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


class ElementwiseMethods:
    """Elementwise methods of one and of two tensors."""

    __slots__ = ()

    abs, abs_, absolute, absolute_, neg, neg_, negative = abs, abs_, absolute, absolute_, neg, neg_, negative
    negative_, reciprocal, reciprocal_, sqrt, sqrt_, rsqrt = negative_, reciprocal, reciprocal_, sqrt, sqrt_, rsqrt
    rsqrt_, exp, exp_, exp2, exp2_, expm1, expm1_, log = rsqrt_, exp, exp_, exp2, exp2_, expm1, expm1_, log
    log_, log2, log2_, log10, log10_, log1p, log1p_, sign = log_, log2, log2_, log10, log10_, log1p, log1p_, sign
    sign_, sgn, sgn_, floor, floor_, ceil, ceil_, trunc = sign_, sgn, sgn_, floor, floor_, ceil, ceil_, trunc
    trunc_, fix, fix_, frac, frac_, sin, sin_, cos, cos_ = trunc_, fix, fix_, frac, frac_, sin, sin_, cos, cos_
    tan, tan_, asin, asin_, arcsin, arcsin_, acos, acos_ = tan, tan_, asin, asin_, arcsin, arcsin_, acos, acos_
    arccos, arccos_, atan, atan_, arctan, arctan_, sinh = arccos, arccos_, atan, atan_, arctan, arctan_, sinh
    sinh_, cosh, cosh_, tanh, tanh_, asinh, asinh_ = sinh_, cosh, cosh_, tanh, tanh_, asinh, asinh_
    arcsinh, arcsinh_, acosh, acosh_, arccosh, arccosh_ = arcsinh, arcsinh_, acosh, acosh_, arccosh, arccosh_
    atanh, atanh_, arctanh, arctanh_, deg2rad, deg2rad_ = atanh, atanh_, arctanh, arctanh_, deg2rad, deg2rad_
    rad2deg, rad2deg_, sinc, sinc_, sigmoid, sigmoid_, erf = rad2deg, rad2deg_, sinc, sinc_, sigmoid, sigmoid_, erf
    erf_, erfc, erfc_, erfinv, erfinv_, lgamma, lgamma_ = erf_, erfc, erfc_, erfinv, erfinv_, lgamma, lgamma_
    digamma, digamma_, i0, i0_, maximum, minimum, fmax = digamma, digamma_, i0, i0_, maximum, minimum, fmax
    fmin, atan2, arctan2, hypot, nextafter, logaddexp = fmin, atan2, arctan2, hypot, nextafter, logaddexp
    logaddexp2, ldexp, logit, logit_, round, round_ = logaddexp2, ldexp, logit, logit_, round, round_
    positive, frexp, heaviside = positive, frexp, heaviside
    igamma, igammac = igamma, igammac

    atan2_, arctan2_ = in_place(angles.atan2, takes="tensors"), in_place(angles.atan2, "arctan2_", takes="tensors")
    hypot_, nextafter_ = in_place(angles.hypot, takes="tensors"), in_place(rules.nextafter, takes="tensors")
    heaviside_ = in_place(rules.heaviside_, takes="tensors", check=_check_heaviside)
    igamma_, igammac_ = in_place(special.igamma, takes="tensors"), in_place(special.igammac, takes="tensors")
    gcd, lcm, ldexp_, gcd_, lcm_, mvlgamma, mvlgamma_ = gcd, lcm, ldexp_, gcd_, lcm_, mvlgamma, mvlgamma_
    __abs__, __neg__, __pos__ = unary(rules.abs, "__abs__"), unary(rules.neg, "__neg__"), positive

    def polygamma(self, n: int) -> Tensor:
        """Return the n-th derivative of digamma."""
        return polygamma(n, self)

    @public
    def polygamma_(self, n: int) -> Tensor:
        """In-place polygamma."""
        return apply_in_place(special.polygamma_, self, n=n)
