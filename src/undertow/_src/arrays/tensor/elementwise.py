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


floor_divide = lambda x, y: divide(x, y, rounding_mode="floor")
trunc_divide = lambda x, y: divide(x, y, rounding_mode="trunc")
maximum = lambda x, y: clamp.clamp_min(x, y) if isinstance(y, (int, float)) else elementwise.maximum(x, y)
minimum = lambda x, y: clamp.clamp_max(x, y) if isinstance(y, (int, float)) else elementwise.minimum(x, y)
softplus = lambda x: apply(activation.softplus, x, beta=1, threshold=math.inf)


def gelu_cdf(x: Any) -> Any:
    """½ (1 + erf(x/√2))."""
    return (erf(x * math.sqrt(0.5)) + 1) * 0.5


gelu = lambda x: x * gelu_cdf(x)
gelu_grad = lambda g, x: g * (gelu_cdf(x) + x * (exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))))


def silu_grad(g: Any, x: Any) -> Any:
    s = sigmoid(x)
    return g * (s * (x * (1 - s) + 1))


softmax_grad = lambda g, y, axis: apply(activation.softmax_backward_data, g, y, dim=axis)
log_softmax_grad = lambda g, y, axis: apply(activation.log_softmax_backward_data, g, y, dim=axis)
round = lambda x, decimals: elementwise.round(x, decimals=decimals)
ndtr = lambda x: apply(special.ndtr, x)
ndtri = lambda x: apply(special.ndtri, x)
log_ndtr = lambda x: apply(special.log_ndtr, x)
erfcx = lambda x: apply(special.erfcx, x)
zeta = lambda x, y: apply(special.zeta, x, y)
igamma = lambda x, y: apply(special.igamma, x, y)
igammac = lambda x, y: apply(special.igammac, x, y)
i0e = lambda x: apply(special.i0e, x)
i1 = lambda x: apply(special.i1, x)
i1e = lambda x: apply(special.i1e, x)
