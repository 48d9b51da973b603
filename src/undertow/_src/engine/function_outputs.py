"""Put the outputs and saved tensors of a custom function's forward into the graph.

Every output gets the function's node as its history: fresh tensors, inputs changed in place (`mark_dirty`), inputs
returned unchanged, and views made inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.base.modes import local
from undertow._src.base.sites import warn
from undertow._src.engine.outputs import bump
from undertow._src.engine.record import save_hooks_of
from undertow._src.engine.saved import SavedInput, SavedOutput
from undertow._src.engine.views import steps_of
from undertow._src.engine.writes import check_writable, rebase, set_edge
from undertow._src.rules.rule import Spec
from undertow._src.tensor.core import TensorCore, View
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.engine.function_node import FunctionNode
    from undertow._src.engine.node import Node
    from undertow._tensor import Tensor


def _listed(node: Node, name: str) -> tuple[Any, ...]:
    """Return what forward put into one of ctx's lists, checking that it is a tuple."""
    given = getattr(node, name)
    if given is not None and not isinstance(given, tuple):
        raise RuntimeError(
            f"autograd internal error: {name} attribute is expected to be a tuple but is {type(given).__name__}"
        )
    return given or ()


def _version(tensor: TensorCore) -> int:
    return 0 if tensor._storage is None else tensor._storage.version


def wrap_outputs(
    node: FunctionNode, args: tuple[Any, ...], places: tuple[int, ...], outputs: tuple[Any, ...], records: bool
) -> tuple[Any, ...]:
    """Give forward's outputs their history."""
    inputs = [args[place] for place in places]
    given = {id(tensor) for tensor in inputs}
    returned = {id(output) for output in outputs}
    written, unchanging = _listed(node, "dirty_tensors"), _listed(node, "non_differentiable")
    dirty = {id(tensor) for tensor in written}
    constant = {id(tensor) for tensor in unchanging}
    for tensor in unchanging:
        if not isinstance(tensor, TensorCore):
            raise RuntimeError(
                f"mark_non_differentiable only accepts variable arguments, but got {type(tensor).__name__}"
            )
    for nr, tensor in enumerate(written):
        if not isinstance(tensor, TensorCore):
            raise RuntimeError(
                f"mark_dirty can only accept variables, but argument {nr} is of type {type(tensor).__name__}"
            )
        if id(tensor) not in returned:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. An input "
                "modified inplace must be returned, so that it gets its new node in the graph."
            )
        if records and id(tensor) not in constant and _is_leaf_that_requires_grad(tensor):
            bump(tensor)
            raise RuntimeError(
                "a leaf Variable that requires grad has been used in an in-place operation. Its old value could not be "
                "differentiated any more: apply the function to a clone()."
            )
        if records and id(tensor) not in given:
            warn(
                "ctx.mark_dirty() received a tensor that was not an input. Mark inputs that forward() writes "
                "to, and nothing else."
            )
        if records and id(tensor) not in constant and tensor._view is not None and len(outputs) > 1:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view, it cannot return "
                f"more than one Tensor. {node._node_name()} returned {len(outputs)} values. Apply it to a clone() of the "
                "view, or split it: one Function that writes and returns the view alone, one that does the rest."
            )
    node._n_outputs = len(outputs)
    several = len(outputs) > 1
    results = []
    for nr, output in enumerate(outputs):
        if not isinstance(output, TensorCore):
            node._result_specs.append(Spec((), None))
            results.append(output)
            continue
        spec = spec_of(output)
        node._result_specs.append(spec)
        is_input = id(output) in given
        if id(output) in constant or not DTYPE_OF[spec.dtype].is_inexact:
            node._constant_outputs.add(nr)
        differentiable = records and id(output) not in constant and DTYPE_OF[spec.dtype].is_inexact
        if id(output) in dirty and not differentiable and output._requires_grad:
            check_writable(output, False)
            bump(output)
            results.append(_plain_output(output, is_input))
        elif id(output) in dirty:
            results.append(_dirty_output(node, nr, output, differentiable))
        elif not differentiable:
            results.append(_plain_output(output, is_input))
        else:
            results.append(_fresh_output(node, nr, output, is_input, several))
    return tuple(results)


def spec_of(tensor: TensorCore) -> Spec:
    """Return shape and dtype of a tensor, which may be sparse."""
    array = tensor._array if tensor._is_strided else tensor._values()._array
    return Spec(tuple(tensor.shape), array.dtype)


def _is_leaf_that_requires_grad(tensor: TensorCore) -> bool:
    """Whether a write would reach a leaf; a view made inside forward counts if its base requires grad."""
    view = tensor._view
    return tensor._edge is None and (tensor._requires_grad or (view is not None and view.base._requires_grad))


def _dirty_output(node: Node, nr: int, tensor: TensorCore, records: bool) -> TensorCore:
    check_writable(tensor, records)
    bump(tensor)
    if records:
        if tensor._view is None:
            set_edge(tensor, (node, nr))
        else:
            rebase(tensor, node)
    return tensor


def _plain_output(output: TensorCore, is_input: bool) -> TensorCore:
    """Return an output without history: never the input itself, nor a tensor with a history from inside forward."""
    if output._requires_grad:
        return output.detach()
    return _alias(output, "no_grad") if is_input else output


def _alias(tensor: TensorCore, origin: str) -> Tensor:
    """Return a view of a whole tensor that refuses writes while gradients are recorded."""
    alias = tensor.detach()
    view = tensor._view
    base, steps = (tensor, ()) if view is None else (view.base, steps_of(view))
    alias._view = View(base, steps, _version(tensor), origin)
    return alias


def _fresh_output(node: Node, nr: int, output: TensorCore, is_input: bool, several: bool) -> TensorCore:
    if is_input:
        output = _alias(output, "multi_output" if several else "function")
    elif output._requires_grad and (output._edge is None or output._edge[0] is not node):
        output = output.detach()
    elif output._view is not None:
        view = output._view
        output._view = View(view.base, steps_of(view), _version(output), "multi_output" if several else "function")
    output._edge = (node, nr)
    output._requires_grad = True
    return output


def save(node: FunctionNode, outputs: tuple[Any, ...]) -> None:
    """Save the tensors that `save_for_backward` was given."""
    saved: list[Any] = []
    for tensor in _listed(node, "to_save"):
        if tensor is None:
            saved.append(None)
            continue
        if not isinstance(tensor, TensorCore):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {len(saved)} is of type {type(tensor).__name__}"
            )
        nr = next((nr for nr, output in enumerate(outputs) if output is tensor), None)
        saved.append(SavedInput(tensor) if nr is None else SavedOutput(tensor, nr))
    node._kept_tensors = tuple(saved)
    node.to_save = node.dirty_tensors = node.non_differentiable = None
    if local.modes.saved_hooks:
        save_hooks_of(node, node._kept_tensors)
    for value in saved:
        if type(value) is SavedInput and value.packed is None:
            value.edge = None  # PyTorch lets a custom function's inputs be detached in place
