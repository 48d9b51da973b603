"""`torch.special`: special functions, some of which `torch` has under other names."""

from __future__ import annotations

from typing import Any

from undertow._src.base.lazy import lazy_names
from undertow._src.engine.apply import unary
from undertow._src.engine.arguments import invalid_combination
from undertow._src.ops.activation import functional_log_softmax as _log_softmax
from undertow._src.ops.activation import softmax as softmax
from undertow._src.ops.clamp import xlogy as xlogy
from undertow._src.ops.elementwise import digamma as digamma
from undertow._src.ops.elementwise import erf as erf
from undertow._src.ops.elementwise import erfc as erfc
from undertow._src.ops.elementwise import erfinv as erfinv
from undertow._src.ops.elementwise import exp2 as exp2
from undertow._src.ops.elementwise import expm1 as expm1
from undertow._src.ops.elementwise import i0 as i0
from undertow._src.ops.elementwise import log1p as log1p
from undertow._src.ops.elementwise import logit as logit
from undertow._src.ops.elementwise import mvlgamma as mvlgamma
from undertow._src.ops.elementwise import of_two_tensors
from undertow._src.ops.elementwise import polygamma as polygamma
from undertow._src.ops.elementwise import round as round
from undertow._src.ops.elementwise import sinc as sinc
from undertow._src.ops.numbers import is_number
from undertow._src.ops.public import finish, overloaded
from undertow._src.ops.reduce import logsumexp as logsumexp
from undertow._src.rules import special as rules
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore

multigammaln = mvlgamma
expit = unary(rules.sigmoid, "expit", "1 / (1 + e⁻ˣ).")
gammainc = of_two_tensors(rules.igamma, "gammainc")
gammaincc = of_two_tensors(rules.igammac, "gammaincc")
gammaln = unary(rules.lgamma, "gammaln", "The logarithm of the gamma function's absolute value.")
psi = unary(rules.digamma, "psi", "The derivative of gammaln.")
erfcx = unary(rules.erfcx, "erfcx", "e^(x²) erfc(x).")
ndtr = unary(rules.ndtr, "ndtr", "The normal distribution function.")
ndtri = unary(rules.ndtri, "ndtri", "The inverse of ndtr.")
log_ndtr = unary(rules.log_ndtr, "log_ndtr", "log(ndtr(x)).")
i0e = unary(rules.i0e, "i0e", "e^(−|x|) i0(x).")
i1 = unary(rules.i1, "i1", "The first modified Bessel function.")
i1e = unary(rules.i1e, "i1e", "e^(−|x|) i1(x).")
entr = unary(rules.entr, "entr", "−x log x.")


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return log(softmax(x)) along a dim."""
    return _log_softmax(input, dim, dtype=dtype)


def _rule_for(name: str, input: Any, other: Any, both: Rule, of_number: Rule, number: Rule) -> Rule:
    if isinstance(input, TensorCore) and isinstance(other, TensorCore):
        return both
    if isinstance(other, TensorCore) and is_number(input):
        return of_number
    if isinstance(input, TensorCore) and is_number(other):
        return number
    raise invalid_combination(name, (input, other))


@overloaded
def xlog1py(input: Any, other: Any, *, out: Any = None) -> Any:
    """Return input · log(1 + other), which is 0 where input is 0."""
    rule = _rule_for("xlog1py", input, other, rules.xlog1py, rules.xlog1py_of_number, rules.xlog1py_number)
    return finish(rule, (input, other), out)


@overloaded
def zeta(input: Any, other: Any, *, out: Any = None) -> Any:
    """Return the Hurwitz zeta function Σ (other + k)^(−input)."""
    rule = _rule_for("zeta", input, other, rules.zeta, rules.zeta_of_number, rules.zeta_number)
    return finish(rule, (input, other), out)


_RARE = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
    "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 chebyshev_polynomial_t "
    "chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
    "laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
    "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
).split()
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(_RARE, "undertow._src.ops.special_rare"))

for _function in (expit, gammainc, gammaincc, gammaln, psi, erfcx, ndtr, ndtri, log_ndtr, i0e, i1, i1e, entr):
    _function.__module__ = __name__  # for pickle
