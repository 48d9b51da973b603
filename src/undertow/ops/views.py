"""Making a view: the shortcut of `apply` for view rules whose raw view is already taken, and views taken in place."""

from __future__ import annotations

from typing import Any

from undertow._core import InferenceStorage, Storage, View
from undertow.autograd import apply as _apply
from undertow.autograd.apply import apply, bump, edges_of, keep_inputs, make_node
from undertow.autograd.node import edge_of, node_class
from undertow.autograd.views import refresh_view
from undertow.autograd.writes import check_writable, set_edge
from undertow.modes import local, special
from undertow.rules.rule import Rule, Spec, op
from undertow.xp import numpy as numpy_xp

_new = object.__new__


def view_of(rule: Rule, source: Any, value: Any, statics: dict[str, Any]) -> Any:
    """What `apply(rule, source, **statics)` returns, given the raw view of a rule with one output.

    The statics come in the order of the rule's.
    """
    if special.active:
        return apply(rule, source, **statics)
    storage = source._storage
    if storage is None:
        storage = source._storage = Storage()
    array = source._array
    spec = Spec(array.shape, array.dtype)
    modes = local.modes
    outer = source._view
    if outer is None:
        base, steps, origin = source, ((rule, statics, spec, 0),), None
    else:
        refresh_view(source)
        base, steps, origin = outer.base, (*outer.steps, (rule, statics, spec, 0)), outer.origin
    result = _new(_apply.Tensor)
    result._array = value
    result._storage = storage
    result._meta = None
    if modes.grad_enabled:
        if source._requires_grad:
            edge = source._edge or edge_of(source)
            node = (rule.node_class or node_class(rule))(
                (edge,), next(modes.sequence), (), tuple(statics.values()), (spec,)
            )
            result._edge = (node, 0)
            result._requires_grad = True
        else:
            result._edge = None
            result._requires_grad = False
    else:
        result._edge = None
        result._requires_grad = False
        origin = origin or "no_grad"
    if type(storage) is InferenceStorage:
        origin = "inference"
    result._view = View(base, steps, storage.version, origin)
    return result


def renamed(rule: Rule, node: str) -> Rule:
    """The same view rule under another node's name: PyTorch numbers views taken in place on."""
    gradient = rule.gradients[0]
    assert gradient is not None
    return op(rule.name, rule.forward, node=node, view=True, **{rule.inputs[0]: gradient.formula})


def apply_view_in_place(rule: Rule, target: Any, **statics: Any) -> Any:
    """Makes a tensor a view of what it was: `t_`, `squeeze_`. Counts as a write, though no memory changes."""
    edges = edges_of(rule, (target,))
    check_writable(target, edges is not None)
    before = target._array
    array = rule.forward(numpy_xp, before, **statics)
    node = None
    if edges is not None:
        node = make_node(rule, edges, (target,), keep_inputs((target,), (before,)), (), statics, 0)
    target._array = array
    bump(target)
    view = target._view
    if view is not None:
        steps = (*view.steps, (rule, statics, Spec(before.shape, before.dtype), 0))
        target._view = View(view.base, steps, target._storage.version, view.origin)
    if node is not None:
        set_edge(target, (node, 0))
    return target
