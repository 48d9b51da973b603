"""Gradients of all inputs at once, in PyTorch's operators: products, norms, convolutions, pools, attention, losses.

`needs` says which inputs require one. A formula that returns None leaves the node to undertow's own.
"""

from __future__ import annotations

from typing import Any

from undertow._src.overrides.dispatch.steps import REDUCTIONS, Formula, do, mul, neg, sum_to, times
from undertow._src.types.dtypes import DTYPE_OF

Gradients = tuple[Any, ...]


# --- products


def _left(g: Any, right: Any, flipped: bool) -> Any:
    """Return the gradient of the left factor, with that factor's layout (`flipped`: column by column)."""
    return do("t", do("mm", right, do("t", g))) if flipped else do("mm", g, do("t", right))


def _right(g: Any, left: Any, flipped: bool) -> Any:
    return do("t", do("mm", do("t", g), left)) if flipped else do("mm", do("t", left), g)


def _mm(g: Any, needs: Any, self: Any, mat2: Any, flipped: Any) -> Gradients:
    into_right = _right(g, self, flipped[1]) if needs[1] else None
    return _left(g, mat2, flipped[0]) if needs[0] else None, into_right


def _addmm(g: Any, needs: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any, flipped: Any, self_spec: Any) -> Gradients:
    into_left = times(_left(g, mat2, flipped[0]), alpha) if needs[1] else None
    into_right = times(_right(g, mat1, flipped[1]), alpha) if needs[2] else None
    return sum_to(times(g, beta), self_spec.shape) if needs[0] else None, into_left, into_right


def _turned(batch: Any) -> Any:
    return do("transpose.int", batch, 1, 2)


def _bmm(g: Any, needs: Any, self: Any, mat2: Any) -> Gradients:
    right = do("bmm", _turned(self), g) if needs[1] else None
    return do("bmm", g, _turned(mat2)) if needs[0] else None, right


def _baddbmm(g: Any, needs: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any, self_spec: Any = None) -> Gradients:
    left = times(do("bmm", g, _turned(batch2)), alpha) if needs[1] else None
    right = times(do("bmm", _turned(batch1), g), alpha) if needs[2] else None
    into_self = times(g, beta) if needs[0] else None
    if into_self is not None and self_spec is not None:
        into_self = sum_to(into_self, self_spec.shape)
    return into_self, left, right


def _outer(g: Any, vec: Any) -> Any:
    return mul(do("view", g, [g.shape[0], 1]), vec)


def _mv(g: Any, needs: Any, self: Any, vec: Any) -> Gradients:
    into_matrix = _outer(g, vec) if needs[0] else None
    return into_matrix, do("mv", do("t", self), g) if needs[1] else None


def _addmv(g: Any, needs: Any, mat: Any, vec: Any, beta: Any, alpha: Any) -> Gradients:
    into_matrix, into_vector = _mv(times(g, alpha), needs[1:], mat, vec)
    return times(g, beta) if needs[0] else None, into_matrix, into_vector


def _dot(g: Any, needs: Any, self: Any, tensor: Any) -> Gradients:
    into_self = mul(g, tensor) if needs[0] else None
    return into_self, mul(g, self) if needs[1] else None


# --- norms, convolutions, pools, attention


def _layer_norm(
    g: Any, needs: Any, input: Any, weight: Any, bias: Any, result1: Any, result2: Any, normalized_shape: Any
) -> Gradients | None:
    if input.dtype != result1.dtype:  # half precision with statistics in single precision
        return None
    return do(
        "native_layer_norm_backward", g, input, list(normalized_shape), result1, result2, weight, bias, list(needs)
    )


def _group_norm(
    g: Any, needs: Any, input: Any, weight: Any, result1: Any, result2: Any, N: int, C: int, HxW: int, group: int
) -> Gradients | None:
    if isinstance(g, (tuple, list)):  # gradients of the statistics too
        return None
    return do("native_group_norm_backward", g, input, result1, result2, weight, N, C, HxW, group, list(needs))


def _batch_norm(
    g: Any, needs: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, result1: Any, result2: Any,
    training: bool, eps: float,
) -> Gradients:  # fmt: skip
    found = do(
        "native_batch_norm_backward", g, input, weight, running_mean, running_var, result1, result2, training, eps,
        list(needs[:3]),
    )  # fmt: skip
    return (*found, *[None] * (len(needs) - 3))[: len(needs)]


def _convolution(
    g: Any, needs: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Gradients | None:  # fmt: skip
    if input is None or weight is None:
        return None
    mask = [*needs, False][:3]
    return do(
        "convolution_backward", g, input, weight, [g.shape[1]] if mask[2] else [0], list(stride), list(padding),
        list(dilation), transposed, list(output_padding), groups, mask,
    )[: len(needs)]  # fmt: skip


def _max_pool(
    g: Any, needs: Any, self: Any, result1: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Gradients:  # fmt: skip
    g = g[0] if isinstance(g, (tuple, list)) else g
    name = f"max_pool{len(kernel_size)}d_with_indices_backward"
    lists = (list(kernel_size), list(stride), list(padding), list(dilation))
    return (do(name, g, self, *lists, ceil_mode, result1),)


def _avg_pool(
    g: Any, needs: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: Any,
) -> Gradients:  # fmt: skip
    lists = (list(kernel_size), list(stride), list(padding))
    name = f"avg_pool{len(kernel_size)}d_backward"
    return (do(name, g, self, *lists, ceil_mode, count_include_pad, divisor_override),)


def _attention(
    g: Any, needs: Any, query: Any, key: Any, value: Any, attn_mask: Any, output: Any, rows: Any, dropout_p: float,
    is_causal: bool, scale: Any,
) -> Gradients:  # fmt: skip
    options = {"attn_mask": attn_mask} if attn_mask is not None else {}
    options |= {"scale": scale} if scale is not None else {}
    found = do(
        "_scaled_dot_product_flash_attention_for_cpu_backward", g, query, key, value, output, rows, dropout_p, is_causal,
        **options,
    )  # fmt: skip
    return (*found, None)[: len(needs)]


def _prelu(g: Any, needs: Any, self: Any, weight: Any) -> Gradients:
    found = do("_prelu_kernel_backward", g, self, weight)
    return tuple([each if need else None for each, need in zip(found, needs, strict=True)])


# --- losses


def _loss(name: str, option: str = "") -> Formula:
    def formula(
        g: Any, needs: Any, self: Any, target: Any, reduction: Any, beta: Any = None, delta: Any = None
    ) -> Gradients:
        more = {"beta": [beta], "delta": [delta], "": []}[option]
        found = do(name, g, self, target, REDUCTIONS.get(reduction, reduction), *more)
        return (found if needs[0] else None, neg(found) if needs[1:] == (True,) else None)[: len(needs)]

    return formula


def _nll(name: str) -> Formula:
    def formula(
        g: Any, needs: Any, self: Any, target: Any, weight: Any, reduction: Any, ignore_index: int, total_weight: Any
    ) -> Gradients:
        number = REDUCTIONS.get(reduction, reduction)
        return (do(name, g, self, target, weight, number, ignore_index, total_weight), None, None)[: len(needs)]

    return formula


def _binary_cross_entropy(g: Any, needs: Any, self: Any, target: Any, weight: Any, reduction: Any) -> Gradients | None:
    if any(needs[1:]):
        return None
    number = REDUCTIONS.get(reduction, reduction)
    rest = [weight, number] if number != 1 else [weight] if weight is not None else []
    return (do("binary_cross_entropy_backward", g, self, target, *rest), None, None)[: len(needs)]


def _with_logits(
    g: Any, needs: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: Any
) -> Gradients | None:
    if any(needs[1:]) or weight is not None or pos_weight is not None:
        return None
    found = mul(do("sub.Tensor", do("sigmoid", self), target), g)
    if REDUCTIONS.get(reduction, reduction) == 1:
        found = do("div_.Scalar", found, self.numel())
    return (found, None, None, None)[: len(needs)]


def _atan2(g: Any, needs: Any, self: Any, other: Any) -> Gradients:
    squares = do("add.Tensor", mul(self, self), mul(other, other))
    inverse = do("reciprocal", squares)
    inverse = do("masked_fill.Scalar", inverse, do("eq.Scalar", squares, 0), 0)
    into_self = mul(g, mul(other, inverse)) if needs[0] else None
    return into_self, mul(g, mul(neg(self), inverse)) if needs[1] else None


def _index_put(g: Any, needs: Any, indices: Any, values_spec: Any, accumulate: bool) -> Gradients | None:
    into_self = g
    if needs[0] and not accumulate:
        zeros = do("zeros", list(values_spec.shape), dtype=DTYPE_OF[g._array.dtype], layout=g.layout, device=g.device)
        into_self = do("index_put", g, list(indices), zeros)
    into_values = None
    if needs[1]:
        into_values = sum_to(do("index.Tensor", g, list(indices)), values_spec.shape)
    return into_self if needs[0] else None, into_values, *[None] * (len(needs) - 2)


JOINT: dict[str, Formula] = {
    "AdaptiveAvgPool2DBackward0": lambda g, needs, self: (do("_adaptive_avg_pool2d_backward", g, self),),
    "AdaptiveAvgPool3DBackward0": lambda g, needs, self: (do("_adaptive_avg_pool3d_backward", g, self),),
    "AdaptiveMaxPool2DBackward0": lambda g, needs, self, result1: (
        do("adaptive_max_pool2d_backward", g[0], self, result1),
    ),
    "AddmmBackward0": _addmm,
    "AddmvBackward0": _addmv,
    "Atan2Backward0": _atan2,
    "AvgPool2DBackward0": _avg_pool,
    "AvgPool3DBackward0": _avg_pool,
    "BaddbmmBackward0": _baddbmm,
    "BinaryCrossEntropyBackward0": _binary_cross_entropy,
    "BinaryCrossEntropyWithLogitsBackward0": _with_logits,
    "BmmBackward0": _bmm,
    "ConvolutionBackward0": _convolution,
    "DotBackward0": _dot,
    "HuberLossBackward0": _loss("huber_loss_backward", "delta"),
    "IndexPutBackward0": _index_put,
    "MaxPool2DWithIndicesBackward0": _max_pool,
    "MaxPool3DWithIndicesBackward0": _max_pool,
    "MmBackward0": _mm,
    "MseLossBackward0": _loss("mse_loss_backward"),
    "MvBackward0": _mv,
    "NativeBatchNormBackward0": _batch_norm,
    "NativeGroupNormBackward0": _group_norm,
    "NativeLayerNormBackward0": _layer_norm,
    "NllLoss2DBackward0": _nll("nll_loss2d_backward"),
    "NllLossBackward0": _nll("nll_loss_backward"),
    "PreluKernelBackward0": _prelu,
    "ScaledDotProductFlashAttentionForCpuBackward0": _attention,
    "SmoothL1LossBackward0": _loss("smooth_l1_loss_backward", "beta"),
    "SoftMarginLossBackward0": _loss("soft_margin_loss_backward"),
}
