"""Making a view: the shortcut of `apply` for view rules whose raw view is already taken, and views taken in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.base.modes import local, slow_path
from undertow._src.engine import apply as _apply
from undertow._src.engine.apply import PLAIN, apply
from undertow._src.engine.node import edge_of
from undertow._src.engine.outputs import bump
from undertow._src.engine.record import KeptInputs, edges_of, make_node
from undertow._src.engine.rule_node import node_class
from undertow._src.engine.views import Step, refresh_view, steps_of
from undertow._src.engine.writes import check_writable, set_edge
from undertow._src.rules.rule import Rule, Spec
from undertow._src.tensor.core import InferenceStorage, View, ndarray

if TYPE_CHECKING:
    from undertow._tensor import Tensor

_new = object.__new__


def view_of(rule: Rule, source: Tensor, value: object, statics: dict[str, Any]) -> Tensor:
    """Return what `apply(rule, source, **statics)` returns, given the raw view of a rule with one output.

    The statics come in the order of the rule's. On a device the raw view is not used: take it of `lying(array)`, which
    computes nothing there.
    """
    array = source._array
    if slow_path.count or type(array) is not ndarray or source.__class__ not in PLAIN:
        return apply(rule, source, **statics)
    return view_through(source, ((rule, statics, Spec(array.shape, array.dtype), 0),), value)


def view_through(source: Any, steps: tuple[Step, ...], value: Any) -> Any:
    """Return the view at the end of several steps of rules with one output, given its raw view; no rare mode is on."""
    storage = source._storage or source._get_storage()
    outer = source._view
    modes = local.modes
    if outer is None:
        base, path, origin = source, steps, None
    else:
        if modes.grad_enabled:
            refresh_view(source)
        base, path, origin = outer.base, steps_of(outer) + steps, outer.origin
    result = _new(_apply.Tensor)
    result._array = value
    result._storage = storage
    result._meta = None
    if not modes.grad_enabled:
        result._edge = None
        result._requires_grad = False
        origin = origin or "no_grad"
    elif source._requires_grad:
        edge = source._edge or edge_of(source)
        for rule, statics, spec, _ in steps:
            make = rule.node_class or node_class(rule)
            edge = (make((edge,), next(modes.sequence), (), tuple(statics.values()), (spec,)), 0)
        result._edge = edge
        result._requires_grad = True
    else:
        result._edge = None
        result._requires_grad = False
    if type(storage) is InferenceStorage:
        origin = "inference"
    result._view = View(base, path, storage.version, origin)
    return result


def views_of(rule: Rule, source: Any, values: tuple[Any, ...], statics: dict[str, Any]) -> tuple[Any, ...]:
    """Return `view_of` for a rule with several outputs, which share a node and must not be written to while recorded."""
    if slow_path.count or not values or type(source._array) is not ndarray or source.__class__ not in PLAIN:
        return apply(rule, source, **statics) if values else ()
    storage = source._storage or source._get_storage()
    array = source._array
    spec = Spec(array.shape, array.dtype)
    outer = source._view
    modes = local.modes
    path: tuple[Step, ...] = ()
    if outer is None:
        base, origin = source, None
    else:
        if modes.grad_enabled:
            refresh_view(source)
        base, path, origin = outer.base, steps_of(outer), outer.origin
    requires_grad = source._requires_grad and modes.grad_enabled
    if type(storage) is InferenceStorage:
        origin = "inference"
    elif requires_grad:
        origin = "multi_output"
    elif modes.grad_enabled or origin is None:
        origin = "no_grad"
    node, dtype, version, cls = None, array.dtype, storage.version, _apply.Tensor
    if requires_grad:
        edge = source._edge or edge_of(source)
        node = (rule.node_class or node_class(rule))(
            (edge,), next(modes.sequence), (), tuple(statics.values()), (spec,)
        )
        node._n_outputs = len(values)
        node.outputs = [Spec(value.shape, dtype) for value in values]
    results = []
    for place, value in enumerate(values):
        result = _new(cls)
        result._array = value
        result._storage = storage
        result._meta = None
        result._edge = None if node is None else (node, place)
        result._requires_grad = requires_grad
        result._view = View(base, (*path, (rule, statics, spec, place)), version, origin)
        results.append(result)
    return tuple(results)


def apply_view_in_place(rule: Rule, target: Any, **statics: object) -> Tensor:
    """Make a tensor a view of its former self: `t_`, `squeeze_`. Counts as a write, though no element changes."""
    if slow_path.dispatcher is not None and slow_path.dispatcher.takes((target,)):
        slow_path.dispatcher.show_view(rule, target, statics)
    edges = edges_of(rule, (target,))
    check_writable(target, edges is not None)
    before = target._array
    array = rule.forward(numpy_xp, before, **statics)
    node = None
    if edges is not None:
        node = make_node(rule, edges, (target,), KeptInputs((target,), (before,)), (), statics, 0)
    target._array = array
    bump(target)
    view = target._view
    if view is not None:
        steps = (*steps_of(view), (rule, statics, Spec(before.shape, before.dtype), 0))
        target._view = View(view.base, steps, target._storage.version, view.origin)
    if node is not None:
        set_edge(target, (node, 0))
    return target
