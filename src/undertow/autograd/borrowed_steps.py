"""Steps of `torch.autograd.functional` that packages with Jacobians of their own borrow from it."""

from __future__ import annotations

from typing import Any

from undertow._core import TensorCore


def _as_tuple_nocheck(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _grad_preprocess(inputs: Any, create_graph: bool, need_graph: bool) -> tuple[Any, ...]:
    """Inputs to differentiate by: views of what is given if the graph goes on from there, or else leaves."""
    return tuple([
        _grad_preprocess(each, create_graph, need_graph) if not isinstance(each, TensorCore)
        else each.view_as(each) if create_graph and each.requires_grad
        else each.detach().requires_grad_(need_graph)
        for each in inputs
    ])  # fmt: skip


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Results, without their graph unless it is wanted; tuples of tuples too."""
    if create_graph:
        return inputs
    return tuple([
        each.detach() if isinstance(each, TensorCore) else _grad_postprocess(each, create_graph) for each in inputs
    ])  # fmt: skip


def _tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    """The results in the form that the arguments had: a tensor for a tensor, on each of two levels if there are two."""
    if not isinstance(to_unpack, tuple):
        return res if to_unpack else res[0]
    outer, inner = to_unpack
    if not inner:
        res = tuple([each[0] for each in res])
    return res if outer else res[0]
