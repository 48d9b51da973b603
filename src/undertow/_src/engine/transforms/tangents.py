"""Requirements of forward mode: tangents have the layout of their tensor, and ops have a forward formula in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.engine.transforms.levels import nodes_behind
from undertow._src.rules.elementwise import NOT_IMPLEMENTED
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import zeros
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._tensor import Tensor

# Ops without a forward formula in PyTorch, by the node that they record.
WITHOUT_FORMULA = {
    "CdistBackward0": "_cdist_forward", "CholeskyBackward0": "cholesky", "ConvTbcBackward0": "conv_tbc",
    "CtcLossBackward0": "_ctc_loss", "EmbeddingBagBackward0": "_embedding_bag", "GeqrfBackward0": "geqrf",
    "GridSampler2DBackward0": "grid_sampler_2d", "GridSampler3DBackward0": "grid_sampler_3d", "IgammaBackward0": "igamma",
    "IgammacBackward0": "igammac", "IndexReduceBackward0": "index_reduce", "MultiMarginLossBackward0": "multi_margin_loss",
    "MultilabelMarginLossBackward0": "multilabel_margin_loss_forward", "OrmqrBackward0": "ormqr",
    "PdistBackward0": "_pdist_forward", "RreluWithNoiseBackward1": "rrelu_with_noise",
    "ScaledDotProductFlashAttentionForCpuBackward0": "_scaled_dot_product_flash_attention_for_cpu",
    "SegmentReduceBackward0": "segment_reduce", "SpecialZetaBackward0": "special_zeta",
    "SpecialZetaBackward1": "special_zeta", "Unique2Backward0": "_unique2", "UniqueDimBackward0": "unique_dim",
}  # fmt: skip


def no_formula(node: Any, in_place: bool) -> NotImplementedError | None:
    """Return the error for an op without a forward formula; None for an op with one."""
    rule = node.rule
    name = WITHOUT_FORMULA.get(rule.node_name)
    if rule.node_name in (NOT_IMPLEMENTED, "NotImplemented"):
        name = "aten::" + ("floor_divide" if rule.name == "div_floor" else rule.name)
    if name is None:
        return None
    return NotImplementedError(
        f"Trying to use forward AD with {name}{'_' if in_place else ''} that does not support it because it has not been "
        "implemented yet. Take the derivative in reverse mode (backward, torch.func.vjp), or write the op as a custom "
        "Function with a jvp."
    )


def refuse_without_formula(outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Refuse to push tangents of inputs (edges) to outputs through an op without a forward formula."""
    ends = {node for node, *_ in inputs}
    starts = [tensor._edge[0] for tensor in outputs if tensor._requires_grad and tensor._edge is not None]
    for node in nodes_behind(starts, ends):
        rule = getattr(node, "rule", None)
        error = None if rule is None else no_formula(node, False)
        if error is not None and any(not ends.isdisjoint(_next_nodes(each)) for each in nodes_behind([node], ends)):
            raise error


def _next_nodes(node: Any) -> list[Any]:
    return [edge[0] for edge in node._edges if edge is not None]


def refuse_out(level: Any, name: str, tensors: Sequence[Any]) -> None:
    """Refuse `out=` where one of the tensors has a tangent."""
    if level.follows(tensors):
        raise NotImplementedError(
            f"Trying to use forward AD with {name}_out that does not support it because it is an out= function. Call it "
            "without out=."
        )


def laid_out_as(primal: Any, tangent: Any) -> Any:
    """Return a tangent in its tensor's layout: strides, offset, and whether it is conjugated or negated."""
    if tangent is None or not (primal._is_strided and tangent._is_strided) or primal.is_meta:
        return tangent
    if _layout(primal) == _layout(tangent):
        return tangent
    memory = zeros(_elements(primal), dtype=primal.dtype, device=primal.device)
    copy = memory.as_strided(primal.shape, primal.stride(), primal.storage_offset())
    if primal.is_conj():
        copy = copy.conj()
    if primal.is_neg():
        copy = copy._neg_view()
    return copy.copy_(tangent)


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    steps = [step for step, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1]
    return steps, tensor.storage_offset(), _elements(tensor), tensor.is_conj(), tensor.is_neg()


def _elements(tensor: Tensor) -> int:
    """Return how many elements fit into a tensor's storage."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


# --- requirements on the tangents that a program gives, and on those that jvp returns


def is_real_or_complex(value: object) -> bool:
    """Whether a value is a tensor that may have a tangent."""
    return isinstance(value, TensorCore) and DTYPE_OF[value._array.dtype].is_inexact


def check_size(tensor: TensorCore, tangent: TensorCore) -> None:
    """Check that a tangent has its tensor's size."""
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than its Tensor is not "
            f"supported. The tensor is of size {list(tensor.shape)}, the forward gradient of size {list(tangent.shape)}."
        )


def check_written_tangent(
    written: TensorCore, tangent: TensorCore, moved: list[tuple[Any, Any]], versions: list[int]
) -> None:
    """Check that jvp writes into the tangent of an input that forward writes into, and returns this tangent."""
    for (given, before), version in zip(moved, versions, strict=True):
        if given is written and tangent._get_storage().version == version:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. Forward writes into "
                "this input, so jvp must write into its tangent."
            )
        if given is written and before is not tangent:
            raise RuntimeError(
                "An inplace custom Function is not returning the forward mode gradients as-is. Return from jvp the "
                "tangent object that it got and wrote into."
            )


def check_viewed_tangent(output: TensorCore, tangent: TensorCore, moved: list[tuple[Any, Any]]) -> None:
    """Check that the tangent of a view of an input is a view of that input's tangent."""
    for given, before in moved:
        if given._storage is None or given._storage is not output._storage:
            continue
        if tangent is before or tangent._view is None:
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is), which jvp is not doing. "
                "Return a view of the tangent that jvp gets, such as tangent.view_as(tangent)."
            )
        if tangent._storage is not before._storage:
            raise RuntimeError(
                "A custom Function is returning a view but the jvp returns one of a different base. Return a view of "
                "the tangent that jvp gets."
            )
