"""The elementwise functions a rule may use, on undertow's own tensors: public ops under NumPy's names."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.engine.apply import apply
from undertow._src.ops import clamp, elementwise
from undertow._src.ops.activation import log_softmax, silu, softmax  # noqa: F401
from undertow._src.ops.activation import logsigmoid as log_sigmoid  # noqa: F401
from undertow._src.ops.arithmetic import add, fmod, remainder, square  # noqa: F401
from undertow._src.ops.arithmetic import div as divide
from undertow._src.ops.arithmetic import mul as multiply  # noqa: F401
from undertow._src.ops.arithmetic import pow as power  # noqa: F401
from undertow._src.ops.arithmetic import sub as subtract  # noqa: F401
from undertow._src.ops.clamp import copysign, nan_to_num  # noqa: F401
from undertow._src.ops.compare import bitwise_left_shift as left_shift  # noqa: F401
from undertow._src.ops.compare import bitwise_right_shift as right_shift  # noqa: F401
from undertow._src.ops.compare import (  # noqa: F401
    isfinite, isinf, isnan, isneginf, isposinf, logical_and, logical_not, logical_or, logical_xor, signbit, where,
)  # fmt: skip
from undertow._src.ops.complex import angle, complex, imag, real, view_as_complex, view_as_real  # noqa: F401
from undertow._src.ops.complex import conjugate as conj  # noqa: F401
from undertow._src.ops.elementwise import (  # noqa: F401
    abs, ceil, cos, cosh, digamma, erf, erfc, erfinv, exp, exp2, expm1, floor, fmax, fmin, frexp, gcd, heaviside,
    hypot, i0, lcm, lgamma, log, log1p, log2, log10, logaddexp, logaddexp2, logit, nextafter, polygamma, sigmoid, sin,
    sinh, sqrt, tan, tanh, trunc,
)  # fmt: skip
from undertow._src.ops.elementwise import acos as arccos  # noqa: F401
from undertow._src.ops.elementwise import acosh as arccosh  # noqa: F401
from undertow._src.ops.elementwise import asin as arcsin  # noqa: F401
from undertow._src.ops.elementwise import asinh as arcsinh  # noqa: F401
from undertow._src.ops.elementwise import atan as arctan  # noqa: F401
from undertow._src.ops.elementwise import atan2 as arctan2  # noqa: F401
from undertow._src.ops.elementwise import atanh as arctanh  # noqa: F401
from undertow._src.ops.elementwise import neg as negative  # noqa: F401
from undertow._src.ops.elementwise import round as rint  # noqa: F401
from undertow._src.ops.elementwise import sgn as sign  # noqa: F401
from undertow._src.rules import activation, special


def tied(result: Any, saved: Any) -> Any:
    """Connect the result of a `stepwise` gradient to the saved tensors that require gradients."""
    for value in saved:
        if value is not None and value.requires_grad:
            result = apply(activation.tied, result, value)
    return result


def floor_divide(x: Any, y: Any) -> Any:
    return divide(x, y, rounding_mode="floor")


def trunc_divide(x: Any, y: Any) -> Any:
    return divide(x, y, rounding_mode="trunc")


def maximum(x: Any, y: Any) -> Any:
    return clamp.clamp_min(x, y) if isinstance(y, (int, float)) else elementwise.maximum(x, y)


def minimum(x: Any, y: Any) -> Any:
    return clamp.clamp_max(x, y) if isinstance(y, (int, float)) else elementwise.minimum(x, y)


def softplus(x: Any) -> Any:
    return apply(activation.softplus, x, beta=1, threshold=math.inf)


def gelu_cdf(x: Any) -> Any:
    """½ (1 + erf(x/√2))."""
    return (erf(x * math.sqrt(0.5)) + 1) * 0.5


def gelu(x: Any) -> Any:
    return x * gelu_cdf(x)


def gelu_grad(g: Any, x: Any) -> Any:
    return g * (gelu_cdf(x) + x * (exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))))


def silu_grad(g: Any, x: Any) -> Any:
    s = sigmoid(x)
    return g * (s * (x * (1 - s) + 1))


def softmax_grad(g: Any, y: Any, axis: int) -> Any:
    return apply(activation.softmax_backward_data, g, y, dim=axis)


def log_softmax_grad(g: Any, y: Any, axis: int) -> Any:
    return apply(activation.log_softmax_backward_data, g, y, dim=axis)


def round(x: Any, decimals: int) -> Any:
    return elementwise.round(x, decimals=decimals)


def ndtr(x: Any) -> Any:
    return apply(special.ndtr, x)


def ndtri(x: Any) -> Any:
    return apply(special.ndtri, x)


def log_ndtr(x: Any) -> Any:
    return apply(special.log_ndtr, x)


def erfcx(x: Any) -> Any:
    return apply(special.erfcx, x)


def zeta(x: Any, y: Any) -> Any:
    return apply(special.zeta, x, y)


def igamma(x: Any, y: Any) -> Any:
    return apply(special.igamma, x, y)


def igammac(x: Any, y: Any) -> Any:
    return apply(special.igammac, x, y)


def i0e(x: Any) -> Any:
    return apply(special.i0e, x)


def i1(x: Any) -> Any:
    return apply(special.i1, x)


def i1e(x: Any) -> Any:
    return apply(special.i1e, x)
