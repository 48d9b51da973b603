"""The values that a node shows as `_saved_<name>`: PyTorch's, so that tools which draw graphs draw the same.

Mostly they are what a rule saves, under the same names. Here are the exceptions: values that rules keep private, and
values that PyTorch shows and that are derived from others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from undertow._src.engine.metadata import output_specs

# names: the nodes that keep them private
_KEPT = {
    "A_sym_sizes": "LinalgQrBackward0",
    "A_sym_sizes B_sym_sizes vector": "LinalgSolveExBackward0",
    "A_sym_sizes result self_sym_sizes": "TriangularSolveBackward0",
    "B_sym_sizes LU_sym_sizes adjoint_ permutation": "LinalgLuSolveBackward0",
    "B_sym_sizes self_sym_sizes": "LinalgSolveTriangularBackward0",
    "LU_sym_sizes": "LuUnpackBackward0",
    "abs angle": "PolarBackward0",
    "align_corners scale_factors taps": (
        "UpsampleNearest1DBackward0 UpsampleNearest2DBackward0 UpsampleNearest3DBackward0 "
        "UpsampleNearestExact1DBackward0 UpsampleNearestExact2DBackward0 UpsampleNearestExact3DBackward0"
    ),
    "axes": (
        "SqueezeBackward0 SqueezeBackward0_copy SqueezeBackward1 SqueezeBackward1_copy SqueezeBackward2 "
        "SqueezeBackward2_copy SqueezeBackward3"
    ),
    "axes size": "SqueezeBackward4",
    (
        "b_hh b_ih batch_sizes c0 c_before dtype gates h0 h_before hidden_n input relu result reverse tanh_c "
        "w_hh w_hr w_ih wide_h"
    ): ("CatBackward0 StackBackward0"),
    "bags count scale weight_sym_sizes": "EmbeddingBagBackward0",
    "base": "AffineGridGeneratorBackward0",
    "counts empty runs": "SegmentReduceBackward0",
    "cutoff driver": "LinalgLstsqBackward0",
    "cutoff hermitian": "LinalgPinvBackward0",
    "decimals": "RoundBackward1",
    "descending": "SortBackward0 SortBackward1",
    "dim keepdim ord": "NormBackward0",
    "dtype": "BlockDiagBackward0 MeanBackward0 MeanBackward1 NansumBackward0 SumBackward0 SumBackward1",
    "dtype self_sym_sizes": "CumsumBackward0 ToCopyBackward0",
    "end step": "NarrowCopyBackward0",
    "eps input normalized_shape rstd weight": "MulBackward0",
    "eps": "NativeLayerNormBackward0",
    "factor self": "MulBackward1",
    "first second": "PdistBackward0",
    "flipped": "BmmBackward0 MmBackward0",
    "flipped self_sym_sizes": "AddmmBackward0",
    "found": "NotImplemented",
    "index self_sym_sizes slopes": "NllLoss2DBackward0 NllLossBackward0",
    "input2_sym_sizes self_sym_sizes": "CholeskySolveBackward0",
    "input_sym_sizes weight_sym_sizes": "ConvolutionBackward0",
    "k": "KthvalueBackward0",
    "k largest sorted": "TopkBackward0",
    "last": "FftC2RBackward0",
    "layout": "AsStridedBackward0 AsStridedBackward0_copy AsStridedBackward1",
    "log_alpha result": "CtcLossBackward0",
    "lower": "LinalgEighBackward0",
    "mask scale": "NativeDropoutBackward0",
    "nan neginf posinf": "NanToNumBackward0",
    "ord": "NormBackward1",
    "other": "AddBackward1 SubBackward1",
    "output_size": "Col2ImBackward0 MaxUnpool2DBackward0 MaxUnpool3DBackward0",
    "output_size self_sym_sizes": (
        "AdaptiveAvgPool2DBackward0 AdaptiveAvgPool3DBackward0 AdaptiveMaxPool2DBackward0 AdaptiveMaxPool3DBackward0"
    ),
    "permutation": "LinalgLuFactorExBackward0",
    "places self_sym_sizes": (
        "ReflectionPad1DBackward0 ReflectionPad2DBackward0 ReflectionPad3DBackward0 ReplicationPad1DBackward0 "
        "ReplicationPad2DBackward0 ReplicationPad3DBackward0"
    ),
    "rows weights": "ScaledDotProductFlashAttentionForCpuBackward0",
    "scale_factors taps": (
        "UpsampleBicubic2DAaBackward0 UpsampleBicubic2DBackward0 UpsampleBilinear2DAaBackward0 "
        "UpsampleBilinear2DBackward0 UpsampleLanczos2DAaBackward0 UpsampleLinear1DBackward0 "
        "UpsampleTrilinear3DBackward0"
    ),
    "self_sym_sizes": (
        "AddbmmBackward0 AddmvBackward0 AddrBackward0 AvgPool2DBackward0 AvgPool3DBackward0 BaddbmmBackward0 "
        "CummaxBackward0 CumminBackward0 Im2ColBackward0 LinalgEigBackward0 MaskedScatterBackward0 "
        "MaskedSelectBackward0 MaxPool2DWithIndicesBackward0 MaxPool3DWithIndicesBackward0 TakeBackward0"
    ),
    "self_sym_sizes src_sym_sizes": "DiagonalScatterBackward0 SelectScatterBackward0 SliceScatterBackward0",
    "self_sym_sizes value": "MaskedFillBackward0",
    "self_sym_sizes value_sym_sizes": "MaskedFillBackward1",
    "size": (
        "ExpandBackward0 ExpandBackward0_copy ReshapeAliasBackward0 UnsafeViewBackward0 ViewBackward0 "
        "ViewBackward0_copy"
    ),
    "source_sym_sizes": "IndexAddBackward0 IndexCopyBackward0 PutBackward0",
    "src_sym_sizes": "CopyBackwards",
    "target_sym_sizes": "HuberLossBackward0",
    "value": "FillBackward0 FillBackward2 IndexFillBackward0 ScatterBackward1 ThresholdBackward0",
    "value widths": "ConstantPadNdBackward0",
    "value_sym_sizes": "FillBackward1 FillBackward3",
    "values_sym_sizes": "IndexPutBackward0",
    "weight_sym_sizes": "EmbeddingBackward0",
}

KEPT: dict[str, frozenset[str]] = {
    node: frozenset(names.split()) for names, nodes in _KEPT.items() for node in nodes.split()
}

# Values that no node of PyTorch shows: numbers drawn before the op, weights of images' rows and columns, and the dtype in
# which half-precision numbers are computed.
NEVER = frozenset({"values", "taps", "wide"})

# Results of an op that PyTorch does not have, and that pack hooks do not see.
PRIVATE: dict[str, frozenset[str]] = {
    "NllLossBackward0": frozenset({"index", "slopes"}),
    "NllLoss2DBackward0": frozenset({"index", "slopes"}),
    "ScaledDotProductFlashAttentionForCpuBackward0": frozenset({"weights"}),
}

# Integers, which PyTorch shows as unsigned; other numbers are scalars and keep their sign.
WHOLE = frozenset(
    "diagonal dim dim0 dim1 dim2 dimension dims end ignore_index index offset padding padding_idx shifts start".split()
)


# --- derived values


def _elements(node: Any) -> int:
    return math.prod(node._saved_self_sym_sizes)


def _rows_and_columns(node: Any, which: int) -> tuple[int, int]:
    """Return the size of a factor of addmm: its own, or derived from the other factor and what is added."""
    factor = (node._saved_mat1, node._saved_mat2)[which]
    if factor is not None:
        return tuple(factor.shape)
    other = (node._saved_mat1, node._saved_mat2)[1 - which]
    added = node.specs[0].shape
    return (added[0], other.shape[0]) if which == 0 else (other.shape[1], added[-1])


def _strides(node: Any, which: int) -> tuple[int, int]:
    rows, columns = _rows_and_columns(node, which)
    flipped = node.statics[node.rule.statics.index("flipped")][which]
    return (1, rows) if flipped else (columns, 1)


def _factor_sizes(node: Any, which: int) -> tuple[int, ...]:
    """Return the size of a factor of mm: its own, or derived from the other factor and the product."""
    factors = (node._saved_self, node._saved_mat2)
    if factors[which] is not None:
        return tuple(factors[which].shape)
    (product,) = output_specs(node)[:1] or (None,)
    inner = factors[1 - which].shape[which]
    if product is None:
        return ()
    return (product.shape[0], inner) if which == 0 else (inner, product.shape[1])


def _factor_strides(node: Any, which: int) -> tuple[int, ...]:
    """Return the strides of a factor of mm, which PyTorch saves only where that factor requires a gradient."""
    sizes = _factor_sizes(node, which)
    if node._edges[which] is None or not sizes:
        return ()
    flipped = node.statics[node.rule.statics.index("flipped")][which]
    return (1, sizes[0]) if flipped else (sizes[1], 1)


def _whole(node: Any) -> tuple[int, ...]:
    """Return the size of the tensor that was split into a node's outputs."""
    dim, parts = node.statics[node.rule.statics.index("dim")], [spec.shape for spec in node.outputs]
    return (*parts[0][:dim], sum(part[dim] for part in parts), *parts[0][dim + 1 :])


def _batches(node: Any) -> int:
    saved = node._saved_batch1
    return len(node._saved_batch2 if saved is None else saved)


def _size_along(place: int, dim: int) -> Callable[[Any], int]:
    return lambda node: node.specs[place].shape[dim]


def _resized_from(node: Any) -> tuple[int, ...]:
    """Return the size of a resized image before."""
    (made,) = output_specs(node)[:1] or (None,)
    taps = node.statics[node.rule.statics.index("taps")]
    return () if made is None else (*made.shape[:2], *[each.size for each in taps])


def _scales(axis: int) -> Callable[[Any], Any]:
    """Return the scale factor of an axis, if one was given."""

    def scale(node: Any) -> float | None:
        factors = node.statics[node.rule.statics.index("scale_factors")]
        return None if factors is None else factors[axis]

    return scale


def _mode(name: str, modes: tuple[str, ...]) -> Callable[[Any], int]:
    """Return a mode by its number."""
    return lambda node: modes.index(node.statics[node.rule.statics.index(name)])


def _bias_size(node: Any) -> tuple[int]:
    if node._edges[2] is None:  # no bias, or one that requires no gradient
        return (0,)
    weight = node.specs[1].shape
    return (weight[1] * node._saved_groups if node._saved_transposed else weight[0],)


DERIVED: dict[str, dict[str, Callable[[Any], Any]]] = {
    "AddbmmBackward0": {
        "batch1_sym_argsize_0": _batches,
        "batch1_sym_argsize_1": lambda node: node.specs[0].shape[0],
        "batch2_sym_argsize_2": lambda node: node.specs[0].shape[1],
    },
    "MeanBackward0": {"self_sym_numel": _elements},
    "MeanBackward1": {"self_sym_numel": _elements},
    "ConvolutionBackward0": {"bias_sym_sizes_opt": _bias_size},
    "EmbeddingBackward0": {"weight_sym_argsize_0": _size_along(0, 0)},
    "Im2ColBackward0": {"self_sym_argsize_minus_1": _size_along(0, -1), "self_sym_argsize_minus_2": _size_along(0, -2)},
    "IndexAddBackward0": {
        "source_dim": lambda node: node.specs[1].ndim,
        "alpha": lambda node: 1 if (alpha := node.statics[node.rule.statics.index("alpha")]) is None else alpha,
    },
    "NormBackward1": {"p": lambda node: node.statics[node.rule.statics.index("ord")]},
    "IndexCopyBackward0": {"source_dim": lambda node: node.specs[1].ndim},
    "LinalgSvdBackward0": {"S_sym_argsize_minus_1": lambda node: node.outputs[1].shape[-1]},
    "SplitBackward0": {"self_sym_sizes": _whole},
    "SplitWithSizesBackward0": {"self_sym_sizes": _whole},
    "UnsafeSplitBackward0": {"self_sym_sizes": _whole},
    "MmBackward0": {
        "self_sym_sizes": lambda node: _factor_sizes(node, 0),
        "self_sym_strides": lambda node: _factor_strides(node, 0),
        "mat2_sym_sizes": lambda node: _factor_sizes(node, 1),
        "mat2_sym_strides": lambda node: _factor_strides(node, 1),
    },
    **{
        f"GridSampler{rank}DBackward0": {
            "interpolation_mode": _mode("interpolation_mode", ("bilinear", "nearest", "bicubic")),
            "padding_mode": _mode("padding_mode", ("zeros", "border", "reflection")),
        }
        for rank in (2, 3)
    },
    **{
        f"Upsample{kind}{len(axes)}D{'Aa' * smooth}Backward0": {
            "self_sym_sizes": _resized_from,
            **{f"scales{axis}": _scales(place) for place, axis in enumerate(axes)},
        }
        for kinds, axes, smooth in (
            ("Nearest NearestExact Linear", ("",), False),
            ("Nearest NearestExact Bilinear Bicubic", ("_h", "_w"), False),
            ("Bilinear Bicubic Lanczos", ("_h", "_w"), True),
            ("Nearest NearestExact Trilinear", ("_d", "_h", "_w"), False),
        )
        for kind in kinds.split()
    },
    "AddmmBackward0": {
        "mat1_sym_sizes": lambda node: _rows_and_columns(node, 0),
        "mat1_sym_strides": lambda node: _strides(node, 0),
        "mat2_sym_sizes": lambda node: _rows_and_columns(node, 1),
        "mat2_sym_strides": lambda node: _strides(node, 1),
    },
}

# Nodes whose gradient PyTorch computes with one kernel: recorded, it is one node, and has that node's name here.
ONE_KERNEL = frozenset(
    [
        f"{name}Backward0"
        for name in (
            "Tanh Sigmoid Gelu Elu LeakyRelu Softplus LogSigmoid Hardtanh Hardswish Softshrink Hardshrink PreluKernel Glu "
            "RreluWithNoise RreluWithNoise_ MaxPool2DWithIndices MaxPool3DWithIndices AvgPool2D AvgPool3D "
            "AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool2D AdaptiveMaxPool3D FractionalMaxPool2D "
            "FractionalMaxPool3D NativeLayerNorm NativeBatchNorm MseLoss SmoothL1Loss HuberLoss NllLoss NllLoss2D "
            "ReflectionPad1D ReflectionPad2D ReflectionPad3D ReplicationPad1D ReplicationPad2D ReplicationPad3D "
            "GridSampler2D GridSampler3D UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleLinear1D "
            "UpsampleBilinear2D UpsampleTrilinear3D UpsampleBicubic2D EmbeddingBag BinaryCrossEntropy"
        ).split()
    ]
)
