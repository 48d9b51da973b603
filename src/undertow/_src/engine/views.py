"""Views in the graph: the record of how a view was taken, and what a write through one alias means for the others.

A view remembers its root base and the steps from it. When the storage is written, the base's history is rebuilt
(CopySlices) and every other view is out of date: at its next use its edge is derived from the base again, as one node
that runs the steps' gradients in reverse.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.base import errors, tracer
from undertow._src.base.modes import local, slow_path
from undertow._src.engine.node import Edge, Node, edge_of, keep_gradient, note_origin
from undertow._src.engine.rule_node import node_class
from undertow._src.engine.saved import described_source
from undertow._src.rules.rule import Rule, Spec
from undertow._src.rules.shape import as_strided
from undertow._src.tensor.core import InferenceStorage, View
from undertow.storage import check_overlap, layout_of, root_of, share_storage

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace
    from undertow._tensor import Tensor

RETYPING = frozenset({"conj", "neg_view", "view_as_real", "view_as_complex"})  # steps that strides can't describe

Step = tuple[Rule, dict[str, Any], Spec, int]  # rule, statics, the input's spec, which output


def link_view(rule: Rule, source: Tensor, results: tuple[Any, ...], statics: dict[str, Any]) -> None:
    """Make results views of source: same storage, and a record leading to the root base."""
    storage = source._get_storage()
    outer = source._view
    base, steps = (source, ()) if outer is None else (outer.base, steps_of(outer))
    origin = outer.origin if outer is not None else None
    modes = local.modes
    if modes.inference or type(storage) is InferenceStorage:
        origin = "inference"
    elif slow_path.duals is not None and source._requires_grad and not source.requires_grad:
        pass  # recorded for its tangent only, under no_grad too
    elif not modes.grad_enabled and origin is None:
        origin = "no_grad"
    elif rule.outputs != 1:
        origin = "multi_output" if source._requires_grad else "no_grad"
    spec = Spec(source._array.shape, source._array.dtype)
    for place, result in enumerate(results):
        result._storage = storage
        step = (rule, statics, spec, place)
        result._view = View(base, (*steps, step), storage.version, origin)
        if type(source._array) is DeviceArray:
            result._array = device_view(source._array, step, result._array)


def device_view(source: DeviceArray, step: Step, taken: Any = None) -> DeviceArray:
    """Return a view on a device, where no buffer is shared: it knows how to take its part and how to write it back.

    `taken` is its part of the current value, if that has been computed.
    """

    def put(xp: Namespace, whole: Any, part: Any) -> Any:
        if part.size > whole.size:
            raise (RuntimeError if tracer.current is None else NeedsValue)(
                "unsupported operation: more than one element of the written-to tensor refers to one single memory "
                "location, because it was expanded. In a compiled step or on an accelerator, write to a clone(), in which "
                "each element has memory of its own."
            )
        back = step_gradient(xp, part, *step)
        if part.shape and whole.size == part.size:
            return back
        mask = step_gradient(xp, xp.ones(part.shape, part.dtype), *step) != 0
        return xp.where(mask, back, whole)

    part = taken if type(taken) is DeviceArray and tracer.current is None else None
    return source.view_by(lambda xp, whole: take_view(xp, whole, (step,)), put, part)


def base_requires_grad(tensor: Any) -> bool:
    """Whether a view's base requires gradients, which it may have begun to do after the view was taken."""
    return tensor._view.base._requires_grad and tensor._array.dtype.kind in "fcV"


def refresh_view(tensor: Any) -> None:
    """Bring a view's edge up to date after a write through a different alias."""
    view = tensor._view
    storage = tensor._storage
    base = view.base
    if not base._requires_grad or tensor._array.dtype.kind not in "fcV":
        if view.borrows:
            tensor._requires_grad = view.borrows = False
        if tensor._edge is None or view.version == storage.version:
            return
    if not tensor._requires_grad:  # taken unrecorded, or before the base required gradients
        tensor._requires_grad = view.borrows = True
    if view.version == storage.version:
        return
    if view.origin is not None:
        raise errors.written_view(view.origin, described_source(tensor), through_another=True)
    view.version = storage.version
    view.borrows = False
    old = tensor._edge
    edge = edge_of(base) if base._requires_grad else None  # it may have ceased to require gradients since
    tensor._edge = taken_again(edge, steps_of(view))
    tensor._requires_grad = True
    if slow_path.duals is not None:
        slow_path.duals.note(tensor)
    meta = tensor._meta
    if meta is not None and meta.retains and old is not None:
        move_retained(tensor, old, tensor._edge)


def taken_again(edge: Edge | None, steps: tuple[Step, ...]) -> Edge:
    """Return the edge of a view, taken again from its base: steps within one kind of number count as one."""
    sequence = local.modes.sequence
    if not steps or not any(map(_stands_alone, steps)):
        return (AsStridedBackward0(edge, next(sequence), steps), 0)
    for alone, run in groupby(steps, _stands_alone):
        if alone:
            for rule, statics, spec, _ in run:
                edge = (node_class(rule)((edge,), next(sequence), (), tuple(statics.values()), (spec,)), 0)
        else:
            edge = (AsStridedBackward0(edge, next(sequence), tuple(run)), 0)
    assert edge is not None
    return edge


def _stands_alone(step: Step) -> bool:
    """Whether a step, taken again, is a separate node."""
    return step[0].name in RETYPING or (replaying.on and step[0].outputs == 1)


class replaying:
    """Whether views are taken again step by step, as `_force_original_view_tracking` requires."""

    on = False


def steps_of(view: View) -> tuple[Step, ...]:
    """Return the steps from a base as it is now to a view: an in-place transpose of the base (`t_`) is undone first."""
    before, base = view.whole, view.base._array
    if before is not base:
        view.whole = base
        if type(before) is type(base) is np.ndarray and root_of(before) is root_of(base):
            size, stride, offset = layout_of(before)
            statics = {"size": size, "stride": stride, "storage_offset": offset, "layout": layout_of(base)}
            if (size, stride, offset) != statics["layout"]:
                view.steps = ((as_strided, statics, Spec(base.shape, base.dtype), 0), *view.steps)
    return view.steps


def move_retained(tensor: object, old: Edge, new: Edge) -> None:
    """Move a retained gradient (`retain_grad`) to the tensor's latest value."""
    extras = old[0]._extras
    if extras is not None:
        extras.retained.pop(old[1], None)
    keep_gradient(new, tensor)


def view_gradient(xp: Namespace, g: object, steps: tuple[Step, ...]) -> Any:
    """Return the adjoint of a chain of view steps: it maps a gradient of the view to one of the base."""
    for rule, statics, spec, place in reversed(steps):
        g = step_gradient(xp, g, rule, statics, spec, place)
    return g


def step_gradient(xp: Namespace, g: object, rule: Rule, statics: dict[str, Any], spec: Spec, place: int) -> Any:
    """Return the gradient of one view step. View rules save only specs and statics, so nothing else is needed."""
    gradient = rule.gradients[0] or rule.joint
    assert gradient is not None
    if rule.outputs != 1:
        g = _among_siblings(xp, g, rule, statics, spec, place)
    named = {"xp": xp, "g": g, "needs": (True,), f"{rule.inputs[0]}_spec": spec, **statics}
    result = gradient.formula(*[named[name] for name in gradient.names])
    return result[0] if rule.joint is not None else result


def _among_siblings(
    xp: Namespace, g: Any, rule: Rule, statics: dict[str, Any], spec: Spec, place: int
) -> tuple[Any, ...]:
    """Pad the gradient of one output of several with zeros for the others."""
    whole = np.broadcast_to(np.zeros((), spec.dtype), spec.shape)
    parts = rule.forward(numpy_xp, whole, **statics)
    return tuple([g if nr == place else xp.zeros(part.shape, part.dtype) for nr, part in enumerate(parts)])


def refuse_overlap_of(written: Any, read: Any, apart: bool = False) -> None:
    """Refuse to read from a tensor that shares storage with the one being written; see `check_overlap`."""
    if not share_storage(written, read):
        return
    arrays = [written._array, read._array]
    if type(arrays[0]) is DeviceArray or type(arrays[1]) is DeviceArray:  # no strides here: compute the views again
        memory: Any = None
        for place, tensor in enumerate((written, read)):
            base = tensor if tensor._view is None else tensor._view.base
            memory = np.empty(base._array.shape, base._array.dtype) if memory is None else memory
            arrays[place] = memory if tensor is base else take_view(numpy_xp, memory, steps_of(tensor._view))
    check_overlap(arrays[0], arrays[1], apart)


def take_view(xp: Namespace, x: Any, steps: tuple[Step, ...]) -> Any:
    """Return the view of an array (or tensor) by the steps."""
    for rule, statics, _, place in steps:
        x = rule.forward(xp, x, **statics)
        if rule.outputs != 1:
            x = x[place]
    return x


class AsStridedBackward0(Node):
    """A view taken again from its rewritten base."""

    __slots__ = ("steps",)

    def __init__(self, edge: Edge | None, sequence_nr: int, steps: tuple[Step, ...]) -> None:
        self._edges = (edge,)
        self._order = sequence_nr
        self._extras = self._tensor_hooks = None
        self.steps = steps
        if slow_path.anomaly:
            note_origin(self)

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        return (view_gradient(xp, g, self.steps),)
