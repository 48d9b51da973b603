"""Private steps of `torch.autograd.functional` that packages with their own Jacobians import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.engine.differentiate import grad
from undertow._src.tensor.core import TensorCore
from undertow.autograd import functional


def _as_tuple_nocheck(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _grad_preprocess(inputs: Any, create_graph: bool, need_graph: bool) -> tuple[Any, ...]:
    """Return the inputs to differentiate by: views of the given ones if the graph continues from there, else leaves."""
    return tuple([
        _grad_preprocess(each, create_graph, need_graph) if not isinstance(each, TensorCore)
        else each.view_as(each) if create_graph and each.requires_grad
        else each.detach().requires_grad_(need_graph)
        for each in inputs
    ])  # fmt: skip


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Return results, detached unless their graph is required; tuples of tuples too."""
    if create_graph:
        return inputs
    return tuple([
        each.detach() if isinstance(each, TensorCore) else _grad_postprocess(each, create_graph) for each in inputs
    ])  # fmt: skip


def _tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    """Return the results in the form of the arguments: a tensor for a tensor, on each level if there are two."""
    if not isinstance(to_unpack, tuple):
        return res if to_unpack else res[0]
    outer, inner = to_unpack
    if not inner:
        res = tuple([each[0] for each in res])
    return res if outer else res[0]


def _autograd_grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, create_graph: bool = False, retain_graph: bool | None = None,
    is_grads_batched: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Return `autograd.grad` of the outputs that have a graph; None for inputs that they do not use."""
    if grad_outputs is not None and len(outputs) != len(grad_outputs):
        raise AssertionError(
            f"Expected outputs and grad_outputs to have the same length, but got {len(outputs)} and {len(grad_outputs)}"
        )
    seeds = (None,) * len(outputs) if grad_outputs is None else grad_outputs
    live = [(out, seed) for out, seed in zip(outputs, seeds, strict=True) if out is not None and out.requires_grad]
    if not live:
        return (None,) * len(inputs)
    outs, starts = zip(*live, strict=True)
    return grad(
        outs, inputs, starts, allow_unused=True, create_graph=create_graph, retain_graph=retain_graph,
        is_grads_batched=is_grads_batched,
    )  # fmt: skip


def _check_requires_grad(inputs: Any, input_type: str, strict: bool) -> None:
    """Check in strict mode that every tensor has a graph; the error names the kind of tensor."""
    if not strict:
        return
    if input_type not in ("outputs", "grad_inputs", "jacobian", "hessian"):
        raise RuntimeError("Invalid input_type to _check_requires_grad")
    for nr, each in enumerate(inputs):
        if each is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {nr}, which strict mode refuses."
            )
        if not each.requires_grad:
            if input_type == "hessian":
                raise RuntimeError(
                    f"The hessian of the user-provided function with respect to input {nr} does not depend on it. "
                    "Strict mode refuses that: the function must be thrice differentiable."
                )
            if input_type == "grad_inputs":
                raise RuntimeError(
                    f"The gradient with respect to input {nr} is independent of the function's inputs. "
                    "Strict mode refuses that."
                )
            functional._check_graph((*[each.new_ones((), requires_grad=True)] * nr, each), strict, input_type)


def _fill_in_zeros(grads: Any, refs: Any, strict: bool, create_graph: bool, stage: str) -> tuple[Any, ...]:
    """Replace missing gradients by zeros; in strict mode raise an error that names the stage."""
    if stage not in functional._INDEPENDENT:
        raise RuntimeError(f"Invalid stage argument '{stage}' to _fill_in_zeros")
    return functional._fill(grads, refs, strict, create_graph, stage)


def _validate_v(v: Any, other: Any, is_other_tuple: bool) -> None:
    """Check that a vector has the sizes of what it is multiplied by."""
    if len(v) != len(other):
        if is_other_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(other)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for nr, (one, like) in enumerate(zip(v, other, strict=True)):
        if one.size() != like.size():
            entry = f"Entry {nr} in " if is_other_tuple else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {like.size()} but got {one.size()}.")


def _jacfwd(func: Callable[..., Any], inputs: Any, strict: bool = False, vectorize: bool = False) -> Any:
    """Return the Jacobian by forward mode."""
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported together '
            "so far: drop one of the two."
        )
    return functional.jacobian(func, inputs, vectorize=vectorize, strategy="forward-mode")
