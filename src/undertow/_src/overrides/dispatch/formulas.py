"""Gradients in the operators that PyTorch runs for them, where undertow's own formulas take different steps.

The table has, by the node's name, a formula for each input; `joint_formulas.py` has those that serve all inputs at
once. Parameters are named as in a rule: `g`, what the node saved, `<input>_spec`, statics. The order of the steps is
PyTorch's too: inputs by name, and of two operands mostly the second first.
"""

from __future__ import annotations

import math
from typing import Any

from undertow._src.overrides.dispatch.steps import (
    Formula,
    covers,
    dims_of,
    div,
    do,
    like,
    mul,
    neg,
    new_zeros,
    plus,
    reduced,
    scaled,
    squared,
    sum_to,
    times,
    unsqueezed,
    without_zeros,
    zero_like,
)  # fmt: skip
from undertow._src.types.dtypes import DTYPE_OF

_ROOT_PI = math.sqrt(math.pi)


# --- elementwise


def _atanh(g: Any, self: Any) -> Any:
    squares = squared(self)
    divisor = do("sub_.Tensor", do("fill_.Scalar", do("empty_like", squares), 1), squares)
    return div(scaled(g, 1), divisor)


def _reciprocal(g: Any, result: Any) -> Any:
    squares = mul(result, result)
    return mul(neg(g), squares)


def _rsqrt(g: Any, result: Any) -> Any:
    cubes = do("pow.Tensor_Scalar", result, 3)
    return mul(scaled(g, -0.5), cubes)


def _div_other(g: Any, self: Any, other: Any) -> Any:
    slope = div(div(self, other), other)
    return mul(neg(g), slope)


def _pow_number(g: Any, self: Any, exponent: Any = 2) -> Any:
    if isinstance(exponent, bool):
        return None
    if exponent == 0:
        return do("zeros_like", g)
    return mul(g, scaled(do("pow.Tensor_Scalar", self, exponent - 1), exponent))


def _pow_self(g: Any, self: Any, exponent: Any) -> Any:
    powers = do("pow.Tensor_Tensor", self, do("sub.Scalar", exponent, 1))
    slope = mul(g, mul(exponent, powers))
    zero = zero_like(slope)
    return do("where.self", do("eq.Scalar", exponent, 0.0), zero, slope)


def _pow_exponent(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    flat = do("ge.Scalar", exponent, 0)
    flat = do("logical_and", do("eq.Scalar", self, 0), flat)
    slope = mul(result, do("log", self))
    return mul(g, do("where.self", flat, zero_like(slope), slope))


def _pow_of_number(g: Any, self: Any, result: Any) -> Any:
    if isinstance(self, complex) or self <= 0:
        return None
    return mul(g, scaled(result, math.log(self)))


def _larger(compare: str) -> Formula:
    def formula(g: Any, self: Any, other: Any) -> Any:
        half = do("div.Scalar", g, 2)
        shared = do("where.self", do("eq.Tensor", self, other), half, g)
        return do("masked_fill_.Scalar", shared, do(compare, self, other), 0)

    return formula


def _fmax(compare: str, own: bool) -> Formula:
    def formula(g: Any, self: Any, other: Any) -> Any:
        takes_self = do(compare, self, other)
        takes_self = do("logical_or_", takes_self, do("isnan", other))
        return do("masked_fill.Scalar", g, do("logical_not_", takes_self) if own else takes_self, 0)

    return formula


def _modulo(rounding: str) -> Formula:
    def formula(g: Any, self: Any, other: Any) -> Any:
        whole = do("div.Tensor_mode", self, other, rounding_mode=rounding)
        return mul(neg(g), whole)

    return formula


def _clamp(g: Any, self: Any, min: Any = None, max: Any = None) -> Any:
    zero = zero_like(g)
    above = None if min is None else do("ge.Scalar", self, min)
    below = None if max is None else do("le.Scalar", self, max)
    inside = below if above is None else above if below is None else do("logical_and_", above, below)
    return do("where.self", inside, g, zero)


def _copysign(g: Any, self: Any, result: Any) -> Any:
    return mul(g, without_zeros(div(result, self), self))


def _to_copy(g: Any, self_spec: Any) -> Any:
    if g._array.dtype.kind == "c" and self_spec.dtype.kind != "c":
        return None
    return do("_to_copy", g, **like(g) | {"dtype": DTYPE_OF[self_spec.dtype]})


_ELEMENTWISE: dict[str, dict[str, Formula]] = {
    "AcosBackward0": {"self": lambda g, self: mul(g, neg(do("rsqrt", plus(mul(neg(self), self), 1))))},
    "AcoshBackward0": {"self": lambda g, self: mul(g, do("rsqrt", do("sub.Scalar", mul(self, self), 1)))},
    "AddBackward0": {"self": lambda g: g, "other": lambda g, alpha=1: times(g, alpha)},
    "AddcmulBackward0": {
        "self": lambda g: g,
        "tensor1": lambda g, tensor2, value: mul(g, scaled(tensor2, value)),
        "tensor2": lambda g, tensor1, value: mul(g, scaled(tensor1, value)),
    },
    "AsinBackward0": {"self": lambda g, self: mul(g, do("rsqrt", plus(mul(neg(self), self), 1)))},
    "AsinhBackward0": {"self": lambda g, self: mul(g, do("rsqrt", plus(squared(self), 1)))},
    "AtanBackward0": {"self": lambda g, self: div(g, plus(mul(self, self), 1))},
    "AtanhBackward0": {"self": _atanh},
    "ClampBackward1": {"self": _clamp},
    "ClampMaxBackward0": {"self": lambda g, self, max: _clamp(g, self, None, max)},
    "ClampMinBackward0": {"self": lambda g, self, min: _clamp(g, self, min)},
    "CopysignBackward1": {"self": _copysign},
    "CosBackward0": {"self": lambda g, self: mul(g, neg(do("sin", self)))},
    "Deg2RadBackward0": {"self": lambda g: scaled(g, math.pi / 180)},
    "DivBackward0": {"self": lambda g, other: div(g, other), "other": _div_other},
    "ErfBackward0": {"self": lambda g, self: mul(scaled(do("exp", neg(squared(self))), 2 / _ROOT_PI), g)},
    "ErfcBackward0": {"self": lambda g, self: mul(scaled(do("exp", neg(squared(self))), -2 / _ROOT_PI), g)},
    "ErfinvBackward0": {"self": lambda g, self: mul(scaled(do("exp", squared(do("erfinv", self))), _ROOT_PI / 2), g)},
    "Exp2Backward0": {"self": lambda g, result: scaled(mul(g, result), math.log(2))},
    "ExpBackward0": {"self": lambda g, result: mul(g, result)},
    "Expm1Backward0": {"self": lambda g, result: mul(g, plus(result, 1))},
    "FmaxBackward0": {"self": _fmax("ge.Tensor", True), "other": _fmax("ge.Tensor", False)},
    "FminBackward0": {"self": _fmax("le.Tensor", True), "other": _fmax("le.Tensor", False)},
    "FmodBackward1": {"self": lambda g: g, "other": _modulo("trunc")},
    "HypotBackward0": {
        "self": lambda g, self, result: div(mul(g, self), result),
        "other": lambda g, other, result: div(mul(g, other), result),
    },
    "LerpBackward0": {"self": lambda g, weight: scaled(g, 1 - weight), "end": lambda g, weight: scaled(g, weight)},
    "Log10Backward0": {"self": lambda g, self: div(g, scaled(self, 2.302585092994046))},
    "Log1PBackward0": {"self": lambda g, self: div(g, plus(self, 1))},
    "Log2Backward0": {"self": lambda g, self: div(g, scaled(self, 0.6931471805599453))},
    "LogaddexpBackward0": {
        "self": lambda g, self, other: div(g, plus(do("exp", do("sub.Tensor", other, self)), 1)),
        "other": lambda g, self, other: div(g, plus(do("exp", do("sub.Tensor", self, other)), 1)),
    },
    "LogitBackward0": {"self": lambda g, self, eps: do("logit_backward", g, self, *([] if eps is None else [eps]))},
    "MaskedFillBackward0": {"self": lambda g, mask: do("masked_fill.Scalar", g, mask, 0)},
    "MaximumBackward0": {"self": _larger("lt.Tensor"), "other": _larger("gt.Tensor")},
    "MinimumBackward0": {"self": _larger("gt.Tensor"), "other": _larger("lt.Tensor")},
    "MulBackward1": {"self": lambda g, other: scaled(g, other)},
    "MulBackward0": {"self": lambda g, other: mul(g, other), "other": lambda g, self: mul(g, self)},
    "NanToNumBackward0": {
        "self": lambda g, self: mul(g, mul(do("ne.Scalar", do("abs", self), math.inf), do("eq.Tensor", self, self)))
    },
    "PowBackward0": {"self": _pow_number},
    "PowBackward1": {"self": _pow_self, "exponent": _pow_exponent},
    "PowBackward2": {"exponent": _pow_of_number},
    "Rad2DegBackward0": {"self": lambda g: scaled(g, 180 / math.pi)},
    "ReciprocalBackward0": {"self": _reciprocal},
    "RemainderBackward1": {"self": lambda g: g, "other": _modulo("floor")},
    "RsqrtBackward0": {"self": _rsqrt},
    "SigmoidBackward0": {"self": lambda g, result: do("sigmoid_backward", g, result)},
    "SqrtBackward0": {"self": lambda g, result: div(g, scaled(result, 2))},
    "SubBackward0": {"self": lambda g: g, "other": lambda g, alpha=1: times(neg(g), alpha)},
    "TanBackward0": {"self": lambda g, result: mul(g, plus(squared(result), 1))},
    "TanhBackward0": {"self": lambda g, result: do("tanh_backward", g, result)},
    "ToCopyBackward0": {"self": _to_copy},
    "WhereBackward0": {
        "self": lambda g, condition: do("where.self", condition, g, zero_like(g)),
        "other": lambda g, condition: do("where.self", condition, zero_like(g), g),
    },
}  # fmt: skip
for _name in (
    "CeilBackward0 FloorBackward0 RoundBackward0 TruncBackward0 SignBackward0 ZeroBackward0 FillBackward0 FillBackward2"
).split():
    _ELEMENTWISE[_name] = {"self": lambda g: do("zeros_like", g)}


# --- activations

_ACTIVATIONS: dict[str, dict[str, Formula]] = {
    "CeluBackward0": {"self": lambda g, self, alpha: do("elu_backward", g, alpha, 1, 1.0 / alpha, False, self)},
    "EluBackward0": {
        "self": lambda g, self, alpha, scale, input_scale: do("elu_backward", g, alpha, scale, input_scale, False, self)
    },
    "GeluBackward0": {
        "self": lambda g, self, approximate: do(
            "gelu_backward", g, self, **({} if approximate == "none" else {"approximate": approximate})
        )
    },
    "GluBackward0": {"self": lambda g, self, dim: do("glu_backward", g, self, dim)},
    "HardshrinkBackward0": {"self": lambda g, self, lambd: do("hardshrink_backward", g, self, lambd)},
    "HardsigmoidBackward0": {"self": lambda g, self: do("hardsigmoid_backward", g, self)},
    "HardswishBackward0": {"self": lambda g, self: do("hardswish_backward", g, self)},
    "HardtanhBackward0": {
        "self": lambda g, self, min_val, max_val: do("hardtanh_backward", g, self, min_val, max_val)
    },
    "LeakyReluBackward0": {
        "self": lambda g, self, negative_slope: do("leaky_relu_backward", g, self, negative_slope, False)
    },
    "LogSigmoidBackward0": {"self": lambda g, self: do("log_sigmoid_backward", g, self, None)},
    "LogSoftmaxBackward0": {
        "self": lambda g, result, dim: do("_log_softmax_backward_data", g, result, dim, DTYPE_OF[result._array.dtype])
    },
    "MishBackward0": {"self": lambda g, self: do("mish_backward", g, self)},
    "ReluBackward0": {"self": lambda g, result: do("threshold_backward", g, result, 0)},
    "SafeSoftmaxBackward0": {
        "self": lambda g, result, dim: do("_softmax_backward_data", g, result, dim, DTYPE_OF[result._array.dtype])
    },
    "SiluBackward0": {"self": lambda g, self: do("silu_backward", g, self)},
    "SoftmaxBackward0": {
        "self": lambda g, result, dim: do("_softmax_backward_data", g, result, dim, DTYPE_OF[result._array.dtype])
    },
    "SoftplusBackward0": {
        "self": lambda g, self, beta, threshold: do("softplus_backward", g, self, beta, threshold)
    },
    "SoftshrinkBackward0": {"self": lambda g, self, lambd: do("softshrink_backward", g, self, lambd)},
    "ThresholdBackward0": {"self": lambda g, self, threshold: do("threshold_backward", g, self, threshold)},
}  # fmt: skip


# --- reductions


def _sum(g: Any, self_spec: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if not covers(self_spec.shape, dim):
        g = unsqueezed(g, self_spec.shape, dim, keepdim)
    return do("expand", g, list(self_spec.shape))


def _mean(g: Any, self_spec: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return do("div.Scalar", _sum(g, self_spec, dim, keepdim), reduced(self_spec.shape, dim))


def _nansum(g: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    known = do("logical_not", do("isnan", self))
    if len(dims_of(self.shape, dim)) < self.ndim:
        g = unsqueezed(g, self.shape, dim, keepdim)
    return mul(do("expand", g, list(self.shape)), known)


def _var(g: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    everything = len(dims_of(self.shape, dim)) == self.ndim
    freedom = reduced(self.shape, dim) - (1 if correction is None else correction)
    if everything:
        spread = do("sub.Tensor", self, do("mean", self))
    else:
        g = unsqueezed(g, self.shape, dim, keepdim)
        spread = do("sub.Tensor", self, do("mean.dim", self, dims_of(self.shape, dim), True))
    return mul(scaled(g, 2 / freedom), spread)


def _std(g: Any, self: Any, result: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    return _var(without_zeros(div(g, scaled(result, 2)), result), self, dim, correction, keepdim)


def _vector_norm(g: Any, self: Any, result: Any, ord: Any, dim: Any, keepdim: bool) -> Any:
    if ord != 2:
        return None
    if len(dims_of(self.shape, dim)) < self.ndim and not keepdim:
        g, result = unsqueezed(g, self.shape, dim, keepdim), unsqueezed(result, self.shape, dim, keepdim)
    return mul(g, without_zeros(div(self, result), result))


def _logsumexp(g: Any, self: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    g, result = unsqueezed(g, self.shape, dim, keepdim), unsqueezed(result, self.shape, dim, keepdim)
    return mul(g, do("exp", do("sub.Tensor", self, result)))


def _amax(g: Any, self: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    dims = dims_of(self.shape, dim)
    if not keepdim:
        wide = [1 if axis in dims else length for axis, length in enumerate(self.shape)]
        result = do("view", result, wide)
    mask = do("eq.Tensor", self, result)
    if not keepdim:
        g = do("view", g, wide)
    return mul(div(g, do("sum.dim_IntList", mask, dims, True)), mask)


def _extreme(g: Any, self: Any, result: Any) -> Any:
    """Return the gradient of the extreme element, shared among equal ones."""
    both = do("logical_and", do("isnan", result), do("isnan", self))
    mask = do("logical_or_", do("eq.Tensor", self, result), both)
    return mul(mask, div(g, do("sum", mask)))


def _picked(g: Any, indices: Any, self_spec: Any, dim: Any = -1, keepdim: Any = False) -> Any:
    """Scatter the gradient of values picked along a dim back into zeros."""
    if not keepdim and self_spec.shape:
        g, indices = do("unsqueeze", g, dim), do("unsqueeze", indices, dim)
    return do("scatter.src", new_zeros(g, self_spec.shape), dim, indices, g)


_REDUCTIONS: dict[str, dict[str, Formula]] = {
    "AmaxBackward0": {"self": _amax},
    "AminBackward0": {"self": _amax},
    "LinalgVectorNormBackward0": {"self": _vector_norm},
    "LogsumexpBackward0": {"self": _logsumexp},
    "MeanBackward0": {"self": _mean},
    "MeanBackward1": {"self": _mean},
    "NansumBackward0": {"self": _nansum},
    "NormBackward1": {"self": _vector_norm},
    "StdBackward0": {"self": _std},
    "SumBackward0": {"self": _sum},
    "SumBackward1": {"self": _sum},
    "VarBackward0": {"self": _var},
    **{name: {"self": _extreme} for name in ("MaxBackward1", "MinBackward1", "MedianBackward0")},
}
for _name in "MaxBackward0 MinBackward0 KthvalueBackward0 ModeBackward0 MedianBackward1".split():
    _REDUCTIONS[_name] = {"self": _picked}
for _name in ("SortBackward0", "TopkBackward0"):
    _REDUCTIONS[_name] = {"self": lambda g, indices, self_spec, dim: _picked(g, indices, self_spec, dim, True)}


# --- shapes and places


def _squeeze_dim(g: Any, self_spec: Any, dim: Any) -> Any:
    return do("unsqueeze", g, dim) if self_spec.shape and self_spec.shape[dim] == 1 else g


def _squeeze(g: Any, self_spec: Any) -> Any:
    for axis, length in enumerate(self_spec.shape):
        if length == 1:
            g = do("unsqueeze", g, axis)
    return g


def _viewed(g: Any, self_spec: Any) -> Any:
    return do("view", g, list(self_spec.shape)) if g.is_contiguous() else g.reshape(self_spec.shape)


def _masked_select(g: Any, mask: Any, self: Any) -> Any:
    if mask.ndim > self.ndim or any(a not in (1, b) for a, b in zip(mask.shape[::-1], self.shape[::-1], strict=False)):
        return None
    wide = do("expand", mask, list(self.shape))
    return do("masked_scatter", do("zeros_like", self), wide, g)


_SHAPES: dict[str, dict[str, Formula]] = {
    "CumsumBackward0": {"self": lambda g, dim: do("flip", do("cumsum", do("flip", g, [dim]), dim), [dim])},
    "EmbeddingBackward0": {
        "weight": lambda g, indices, weight_spec, padding_idx, scale_grad_by_freq: do(
            "embedding_dense_backward", g, indices, weight_spec.shape[0], padding_idx, scale_grad_by_freq
        )
    },
    "ExpandBackward0": {"self": lambda g, self_spec: sum_to(g, self_spec.shape)},
    "GatherBackward0": {"self": lambda g, index, self, dim: do("scatter_add", new_zeros(g, self.shape), dim, index, g)},
    "IndexBackward0": {
        "self": lambda g, indices, self_spec: do("index_put", new_zeros(g, self_spec.shape), list(indices), g, True)
    },
    "IndexSelectBackward0": {
        "self": lambda g, index, self_spec, dim: do("index_add", new_zeros(g, self_spec.shape), dim, index, g)
    },
    "MaskedSelectBackward0": {"self": _masked_select},
    "PixelShuffleBackward0": {"self": lambda g, upscale_factor: do("pixel_unshuffle", g, upscale_factor)},
    "SqueezeBackward0": {"self": _squeeze},
    "SqueezeBackward1": {"self": _squeeze_dim},
    "SqueezeBackward4": {"self": _squeeze_dim},
    "TBackward0": {"self": lambda g: do("t", g)},
    "TBackward1": {"self": lambda g: do("t", g)},
    "TakeBackward0": {"self": lambda g, index, self: do("put", do("zeros_like", self), index, g, True)},
    "UnfoldBackward0": {
        "self": lambda g, self_spec, dimension, size, step: do(
            "unfold_backward", g, list(self_spec.shape), dimension, size, step
        )
    },
    "UnsafeViewBackward0": {"self": _viewed},
    "UnsqueezeBackward0": {"self": lambda g, dim: do("squeeze.dim", g, dim)},
    "UnsqueezeBackward1": {"self": lambda g, dim: do("squeeze.dim", g, dim)},
    "ViewBackward0": {"self": _viewed},
    "ReshapeAliasBackward0": {"self": _viewed},
}  # fmt: skip

FORMULAS = {**_ELEMENTWISE, **_ACTIVATIONS, **_REDUCTIONS, **_SHAPES}
