"""Operators that work element by element, and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.operator_tables.kinds import ReductionOpInfo, SpectralFuncInfo, SpectralFuncType
from tests.operator_tables.making import (
    ALL,
    FLOATS,
    INEXACT,
    NUMBERS,
    REAL,
    dtypes_of,
    operator,
    sampled,
)
from tests.operator_tables.op_info import OpInfo
from tests.operator_tables.pointwise import BinaryUfuncInfo, UnaryUfuncInfo

# name, letters, and for some a domain and a reference in NumPy
_UNARY = """
abs ifhBc | acos bifhBc -1 1 arccos | acosh bifhBc 1 None arccosh | asin bifhBc -1 1 arcsin
asinh bifhBc None None arcsinh | atan bifhBc None None arctan | atanh bifhBc -0.99 0.99 arctanh
bitwise_not bi None None bitwise_not | ceil ifhB | positive ifhBc | conj bifhBc
conj_physical bifhBc None None conjugate | cos bifhBc | cosh bifhBc | deg2rad bifhB | exp bifhBc | frac fhB - - -
floor ifhB | i0 bifhB - - - | log1p bifhBc -0.9 None | log bifhBc 0.1 None | log10 bifhBc 0.1 None
log2 bifhBc 0.1 None | logical_not bifhBc | neg ifhBc None None negative | rad2deg bifhB | real bifhBc | round ifhB
sin bifhBc | sinc bifhBc | sinh bifhBc | sign bifhB | sgn bifhBc - - - | signbit bifhB | tan bifhBc | tanh bifhBc
trunc ifhB | exp2 bifhBc | expm1 bifhBc | nan_to_num bifhB | reciprocal bifhBc 0.1 None - | rsqrt bifhBc 0.1 None -
sqrt bifhBc 0.1 None | square bifhBc | angle bifhBc | isfinite bifhBc | isinf bifhBc | isposinf bifhB
isneginf bifhB | isreal bifhBc | isnan bifhBc | sigmoid bifhBc - - - | digamma bifhB 0.5 None - | erf bifhB - - -
erfc bifhB - - - | erfinv bifhB -0.9 0.9 - | lgamma bifhB 0.5 None - | logit bifhB 0.1 0.9 -
special.i0e bifhB - - - | special.i1 bifhB - - - | special.i1e bifhB - - - | special.ndtr bifhB - - -
special.entr bifhB 0.1 None - | special.ndtri bif 0.1 0.9 - | special.log_ndtr bif - - - | special.erfcx bif - - -
nn.functional.relu ifhB - - - | nn.functional.elu fhB - - - | nn.functional.celu fhB - - -
nn.functional.selu fhB - - - | nn.functional.silu fhB - - - | nn.functional.hardsigmoid fhB - - -
nn.functional.mish fhB - - - | nn.functional.logsigmoid fhB - - - | nn.functional.softsign ifhBc - - -
nn.functional.tanhshrink ifhBc - - - | nn.functional.softshrink fhB - - - | nn.functional.hardshrink fhB - - -
nn.functional.hardtanh fhB - - - | nn.functional.relu6 ifhB - - - | nn.functional.softplus fhB - - -
nn.functional.leaky_relu fhB - - - | nn.functional.gelu fhB - - - | nn.functional.hardswish fhB - - -
"""
_NOT_DIFFERENTIABLE = set(
    "bitwise_not logical_not signbit isfinite isinf isposinf isneginf isreal isnan eq ne lt le gt ge logical_and "
    "logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift heaviside lcm gcd "
    "isclose nextafter igamma igammac floor_divide special.zeta".split()
)
_ALIASES = {
    "abs": ("absolute",), "acos": ("arccos",), "acosh": ("arccosh",), "asin": ("arcsin",), "asinh": ("arcsinh",),
    "atan": ("arctan",), "atanh": ("arctanh",), "neg": ("negative",), "trunc": ("fix",), "sub": ("subtract",),
    "mul": ("multiply",), "gt": ("greater",), "ge": ("greater_equal",), "lt": ("less",), "le": ("less_equal",),
    "ne": ("not_equal",), "atan2": ("arctan2",), "sigmoid": ("special.expit",), "erf": ("special.erf",),
}  # fmt: skip

# name, letters, and what keeps the right side away from zero
_BINARY = """
add bifhBc | mul bifhBc | sub ifhBc | atan2 bifhB | bitwise_left_shift i shift | bitwise_right_shift i shift
copysign bifhB | true_divide bifhBc nonzero | eq bifhBc | fmax bifhB | fmin bifhB | fmod ifhB nonzero
remainder ifhB nonzero | floor_divide ifhB nonzero | ge bifhB | gt bifhB | le bifhB | lt bifhB | ne bifhBc
logaddexp fhBc | logaddexp2 fhB | maximum bifhB | minimum bifhB | clamp_max bifhB | clamp_min bifhB
logical_and bifhBc | logical_or bifhBc | logical_xor bifhBc | bitwise_and bi | bitwise_or bi | bitwise_xor bi
heaviside bifhB | lcm i | gcd i | isclose bifhBc | nextafter fhB | igamma f positive | igammac f positive
pow fhBc positive | float_power bifhBc positive | hypot fhB | xlogy bifhB positive | special.xlog1py bifhB positive
special.zeta f large | ldexp f small | rsub ifhBc | polar f | complex fh
"""
_RIGHT = {
    "nonzero": {"exclude_zero": True}, "positive": {"low": 0.2, "high": 3}, "large": {"low": 1.2, "high": 4},
    "shift": {"low": 0, "high": 6}, "small": {"low": 0, "high": 3},
}  # fmt: skip
_LEFT = {"positive": {"low": 0.2, "high": 3}, "large": {"low": 1.2, "high": 4}}
_TENSORS_ONLY = set(
    "atan2 fmax fmin logaddexp logaddexp2 maximum minimum heaviside lcm gcd isclose nextafter igamma igammac hypot complex "
    "polar special.zeta logical_and logical_or logical_xor clamp_max clamp_min ldexp".split()
)
_ONE_SIDED = {"rsub", "float_power", "pow", "complex", "polar"}


def _rows(table: str) -> list[list[str]]:
    return [row.split() for line in table.strip().splitlines() for row in line.split("|")]


def _number(text: str) -> float | None:
    return None if text in ("None", "-") else float(text)


def unary_operators() -> list[OpInfo]:
    """Those of one tensor."""
    made: list[OpInfo] = []
    for name, letters, *more in _rows(_UNARY):
        low, high = (_number(more[0]), _number(more[1])) if more else (None, None)
        reference = None if more[2:] == ["-"] else getattr(np, more[2] if len(more) > 2 else name, None)
        smooth = name not in _NOT_DIFFERENTIABLE
        made.append(
            UnaryUfuncInfo(
                name,
                dtypes=dtypes_of(letters),
                domain=(low, high),
                ref=reference,
                aliases=_ALIASES.get(name),
                supports_autograd=smooth,
                supports_forward_ad=smooth,
                supports_fwgrad_bwgrad=smooth,
                promotes_int_to_float="b" in letters and "f" in letters and name in _FROM_INTEGERS,
            )
        )
    return made


_FROM_INTEGERS = set(
    "acos acosh asin asinh atan atanh cos cosh deg2rad exp i0 log1p log log10 log2 rad2deg sin sinc sinh tan tanh exp2 "
    "expm1 reciprocal rsqrt sqrt sigmoid digamma erf erfc erfinv lgamma logit".split()
)


def binary_operators() -> list[OpInfo]:
    """Those of two tensors, and division in its three ways of rounding."""
    made: list[OpInfo] = []
    for name, letters, *kind in _rows(_BINARY):
        smooth = name not in _NOT_DIFFERENTIABLE
        made.append(
            BinaryUfuncInfo(
                name,
                dtypes=dtypes_of(letters),
                aliases=_ALIASES.get(name),
                supports_autograd=smooth,
                supports_forward_ad=smooth,
                supports_fwgrad_bwgrad=smooth,
                supports_one_python_scalar=False,
                supports_rhs_python_scalar=name not in _TENSORS_ONLY,
                lhs_make_tensor_kwargs=_LEFT.get(kind[0]) if kind else None,
                rhs_make_tensor_kwargs=_RIGHT[kind[0]] if kind else None,
                always_returns_bool=name in ("eq", "ne", "gt", "ge", "lt", "le", "isclose")
                or name.startswith("logical"),
            )
        )
    for variant, mode, letters in (
        ("no_rounding_mode", None, ALL), ("trunc_rounding", "trunc", REAL), ("floor_rounding", "floor", REAL),
    ):  # fmt: skip
        made.append(
            BinaryUfuncInfo(
                "div",
                variant_test_name=variant,
                dtypes=dtypes_of(letters),
                aliases=("divide",),
                sample_kwargs=lambda device, dtype, input, mode=mode: ({"rounding_mode": mode}, {}),
                rhs_make_tensor_kwargs={"exclude_zero": True},
                supports_forward_ad=True,
                supports_fwgrad_bwgrad=True,
            )
        )
    return made


def ternary_operators() -> list[OpInfo]:
    """Those of three, and other ones that work element by element."""
    return [
        operator("addcmul", NUMBERS, lambda t: [(t(3), t(3), t(3)), (t(2, 3), t(3), t(2, 1), {"value": 2})]),
        operator("addcdiv", INEXACT, lambda t: [
            (t(3), t(3), t(3, low=1, high=3)), (t(2, 3), t(3), t(2, 1, low=1, high=3), {"value": 2})]),
        operator("lerp", INEXACT, lambda t: [(t(3), t(3), 0.4), (t(2, 3), t(3), t(2, 3))]),
        operator("clamp", REAL, lambda t: [(t(3), 1, 4), (t(2, 3), t(3), None), (t(2, 3), None, t(2, 1))]),
        operator("where", ALL, lambda t: [(t.flags(3), t(3), t(3)), (t.flags(2, 1), t(2, 3), t(3))],
                 method_variant=None, inplace_variant=None),
        operator("round/decimals_3", "f", lambda t: [(t(4), {"decimals": 3})]),
        operator("round/decimals_neg_3", "f", lambda t: [(t(4, low=-5000, high=5000), {"decimals": -3})]),
        operator("polygamma/polygamma_n_1", "f", lambda t: [
            (1, t(3, low=0.5, high=4))], method_variant=None, inplace_variant=None),
        operator("mvlgamma/mvlgamma_p_3", "f", lambda t: [(t(3, low=3, high=6), 3)]),
        operator("frexp", FLOATS, lambda t: [t(3)], supports_autograd=False),
        operator("fill", ALL, lambda t: [(t(2, 3), 1)]),
        operator("nn.functional.threshold", REAL, lambda t: [(t(3), 1, 2)]),
        operator("nn.functional.prelu", FLOATS, lambda t: [(t(2, 3), t(3)), (t(4), t(1))]),
        operator("nn.functional.rrelu", "f", lambda t: [(t(2, 3), {"training": False})]),
        operator("nn.functional.glu", FLOATS, lambda t: [t(2, 4), (t(4, 3), {"dim": 0})]),
        operator("nn.functional.dropout", FLOATS, lambda t: [(t(3, 4), {"p": 0.0}), (t(3, 4), {"training": False})]),
    ]  # fmt: skip


def reduction_operators() -> list[OpInfo]:
    """Those that make one element of many."""

    def row(name: str, letters: str, **options: Any) -> ReductionOpInfo:
        smooth = options.setdefault("supports_autograd", True)
        return ReductionOpInfo(
            name, dtypes=dtypes_of(letters), supports_forward_ad=smooth, supports_fwgrad_bwgrad=smooth, **options
        )

    return [
        row("all", ALL, identity=True, supports_autograd=False, ref=np.all),
        row("any", ALL, identity=False, supports_autograd=False, ref=np.any),
        row("amax", "bifhB", nan_policy="propagate", ref=np.amax),
        row("amin", "bifhB", nan_policy="propagate", ref=np.amin),
        row("argmax", REAL, supports_multiple_dims=False, supports_autograd=False, ref=np.argmax),
        row("argmin", REAL, supports_multiple_dims=False, supports_autograd=False, ref=np.argmin),
        row("mean", INEXACT, nan_policy="propagate", ref=np.mean),
        row("nanmean", FLOATS, nan_policy="omit", ref=np.nanmean),
        *[
            row(name, INEXACT, nan_policy="propagate", complex_to_real=True, sample_inputs_func=sampled(
                lambda t: [
                    t(4), (t(2, 3), {"dim": 1}), (t(2, 3, 4), (0, 2)),
                    (t(3, 4), {"dim": 1, "correction": 2, "keepdim": True})]
            )) for name in ("std", "var")
        ],
        row("prod", ALL, identity=1, supports_multiple_dims=False, promotes_int_to_int64=True, ref=np.prod),
        row("sum", ALL, identity=0, nan_policy="propagate", promotes_int_to_int64=True, ref=np.sum),
        row("nansum", "bifhB", identity=0, nan_policy="omit", promotes_int_to_int64=True, ref=np.nansum),
        operator("count_nonzero", ALL, lambda t: [t(3), (t(2, 3), {"dim": 1})], supports_autograd=False),
        operator("logsumexp", INEXACT, lambda t: [(t(3), 0), (t(2, 3), 1, True)]),
        operator("linalg.vector_norm", INEXACT, lambda t: [t(3), (t(2, 3), 1), (t(2, 3), {"dim": 1, "keepdim": True})]),
        operator("norm", INEXACT, lambda t: [t(3), (t(2, 3), 2, 1)]),
        operator("var_mean", INEXACT, lambda t: [t(3), (t(2, 3), {"dim": 1})]),
        operator("std_mean", INEXACT, lambda t: [t(3), (t(2, 3), {"dim": 1})]),
        operator("max/reduction_with_dim", "bifhB", lambda t: [(t(2, 3), 1), (t(2, 3), 0, True)]),
        operator("max/reduction_no_dim", "bifhB", lambda t: [t(2, 3)]),
        operator("min/reduction_with_dim", "bifhB", lambda t: [(t(2, 3), 1), (t(2, 3), 0, True)]),
        operator("min/reduction_no_dim", "bifhB", lambda t: [t(2, 3)]),
        operator("aminmax", "bifhB", lambda t: [t(2, 3), (t(2, 3), {"dim": 1})]),
        operator("median", REAL, lambda t: [t(5), (t(2, 3), 1)]),
        operator("nanmedian", REAL, lambda t: [t(5), (t(2, 3), 1)]),
        operator("mode", "bifhB", lambda t: [(t(2, 3), 1)]),
        operator("quantile", "f", lambda t: [(t(5), 0.3), (t(2, 3), 0.5, 1)]),
        operator("nanquantile", "f", lambda t: [(t(5), 0.3), (t(2, 3), 0.5, 1)]),
        operator("cumsum", NUMBERS, lambda t: [(t(3), 0), (t(2, 3), 1)]),
        operator("cumprod", NUMBERS, lambda t: [(t(3), 0), (t(2, 3), 1)]),
        operator("cummax", "bifhB", lambda t: [(t(2, 3), 1)]), operator("cummin", "bifhB", lambda t: [(t(2, 3), 1)]),
        operator("logcumsumexp", INEXACT, lambda t: [(t(2, 3), 1)]),
        operator("softmax", FLOATS, lambda t: [(t(3), 0), (t(2, 3), 1)]),
        operator("log_softmax", FLOATS, lambda t: [(t(3), 0), (t(2, 3), 1)]),
        operator("nn.functional.softmin", FLOATS, lambda t: [(t(2, 3), {"dim": 1})]),
        operator("dist", INEXACT, lambda t: [(t(3), t(3)), (t(2, 3), t(3), 3)]),
        operator("allclose", INEXACT, lambda t: [(t(3), t(3))], supports_autograd=False),
        operator("equal", ALL, lambda t: [(t(3), t(3))], supports_autograd=False),
    ]  # fmt: skip


def spectral_operators() -> list[OpInfo]:
    """Fourier transforms."""
    made: list[OpInfo] = []
    for base in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        for suffix, kind in (("", SpectralFuncType.OneD), ("2", SpectralFuncType.TwoD), ("n", SpectralFuncType.ND)):
            letters = "bif" if base in ("rfft", "ihfft") else "bifc"
            made.append(
                SpectralFuncInfo(
                    f"fft.{base}{suffix}",
                    ref=getattr(np.fft, f"{base}{suffix}", None),
                    ndimensional=kind,
                    dtypes=dtypes_of(letters),
                    supports_forward_ad=True,
                    supports_fwgrad_bwgrad=True,
                )
            )
    return [
        *made,
        operator("fft.fftshift", ALL, lambda t: [t(4), (t(2, 3), {"dim": 1})]),
        operator("fft.ifftshift", ALL, lambda t: [t(4), (t(2, 3), {"dim": 1})]),
    ]
