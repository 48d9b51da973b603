"""Recording the call of a rule: which inputs have edges, what the node saves, and the node itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.base.modes import local, slow_path
from undertow._src.engine.failed_ops import mark_shown
from undertow._src.engine.node import edge_of, note_origin
from undertow._src.engine.rule_node import MATCH_INPUT, RuleNode, class_beside_number, node_class
from undertow._src.engine.saved import Packed, SavedInput, SavedOutput, SavedValue
from undertow._src.engine.shown_names import PRIVATE
from undertow._src.engine.views import refresh_view
from undertow._src.rules.rule import Rule, Spec
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.engine.node import Node


def record(
    rule: Rule, inputs: Sequence[Any], arrays: Sequence[Any], results: Sequence[Any], shown: int,
    statics: dict[str, Any], post_grad: int,
) -> None:  # fmt: skip
    """Give the results their node, if an input with a gradient requires one."""
    edges = edges_of(rule, inputs)
    if edges is None:
        return
    node = make_node(rule, edges, inputs, KeptInputs(inputs, arrays), results, statics, post_grad)
    differentiable = shown if rule.outputs == 0 else rule.differentiable
    for place, result in enumerate(results[:differentiable]):
        if DTYPE_OF[result._array.dtype].is_inexact:
            result._edge = (node, place)
            result._requires_grad = True
            if slow_path.duals is not None:
                slow_path.duals.note(result)


def edges_of(rule: Rule, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the edges of a node for this call; None if there is nothing to record."""
    modes = local.modes
    duals = None
    if not modes.grad_enabled or modes.inference:
        duals = slow_path.duals
        if duals is None or modes.inference:
            return None
    edges, found = [], False
    joint = rule.joint is not None
    for place, given in enumerate(inputs):
        edge = None
        if isinstance(given, TensorCore) and (joint or rule.gradients[min(place, len(rule.gradients) - 1)] is not None):
            if given._view is not None:
                refresh_view(given)
            if given._requires_grad and (duals is None or duals.leads_to(given)):
                edge, found = given._edge or edge_of(given), True
        edges.append(edge)
    return tuple(edges[: rule.slots]) if found else None


def make_node(
    rule: Rule, edges: tuple[Any, ...], inputs: Sequence[Any], kept: Any, results: Sequence[Any],
    statics: dict[str, Any], post_grad: int,
) -> RuleNode:  # fmt: skip
    """Return a node that has saved what the gradients of the recorded inputs will read."""
    modes = local.modes
    saved = _save(rule, edges, kept, results)
    specs: tuple[Any, ...] = ()
    if rule.uses_specs or post_grad & MATCH_INPUT:
        specs = tuple(
            [
                Spec(given._array.shape, given._array.dtype) if isinstance(given, TensorCore) else None
                for given in inputs
            ]
        )
        if rule.variadic and rule.uses_specs:
            fixed = len(rule.inputs) - 1
            specs = (*specs[:fixed], specs[fixed:])
    values = tuple([statics[name] for name in rule.statics])
    if not values and rule.promote is not None and saved:
        # A number among the operands, as given: what the node shows.
        values = tuple([given for given in inputs if given is not None and not isinstance(given, TensorCore)][:1])
    make = rule.node_class or node_class(rule)
    if modes.in_formula and any(given is not None and not isinstance(given, TensorCore) for given in inputs):
        make = class_beside_number(rule)
    node = make(edges, next(modes.sequence), saved, values, specs, post_grad)
    if rule.outputs != 1:
        shown = results[: rule.differentiable or len(results) - len(rule.hidden)]
        node._n_outputs = len(shown)
        node.outputs = [Spec(result._array.shape, result._array.dtype) for result in shown]
    if slow_path.count:
        _record_rarely(node, in_place=bool(results) and results[0] is inputs[0])
    if saved and modes.saved_hooks:
        pack_saved(node)
    return node


class KeptInputs:
    """The inputs of a call as a node saves them, made on demand: `kept[1]` is the second one, saved."""

    __slots__ = ("inputs", "arrays", "early")

    def __init__(self, inputs: Sequence[Any], arrays: Sequence[Any]) -> None:
        self.inputs, self.arrays = inputs, arrays
        self.early: dict[int, Any] = {}

    def __getitem__(self, place: int) -> Any:
        if place in self.early:
            return self.early[place]
        given = self.inputs[place]
        return SavedInput(given) if isinstance(given, TensorCore) else self.arrays[place]

    def __setitem__(self, place: int, saved: SavedValue) -> None:
        self.early[place] = saved

    def freeze(self, rule: Rule, edges: tuple[Any, ...]) -> None:
        """Fix, before a write, the versions of the inputs that gradients will read."""
        needed, last = _needed(rule, edges), len(rule.inputs) - 1
        for place, given in enumerate(self.inputs):
            if isinstance(given, TensorCore) and rule.inputs[min(place, last)] in needed:
                self.early.setdefault(place, SavedInput(given))


def _save(rule: Rule, edges: tuple[Any, ...], kept: KeptInputs, results: Sequence[Any]) -> tuple[Any, ...]:
    """Return what the gradients of the inputs with an edge will read, and None for the rest of the rule's list."""
    if not rule.saves:
        return ()
    needed = _needed(rule, edges)
    return tuple([_save_one(rule, name, kept, results) if name in needed else None for name in rule.saves])


def _needed(rule: Rule, edges: tuple[Any, ...]) -> frozenset[str]:
    if rule.variadic or rule.joint is not None or len(edges) == 1:  # a lone gradient is computed without an edge, too
        return frozenset(rule.saves)
    return frozenset().union(*[names for edge, names in zip(edges, rule.needed) if edge is not None])


def _save_one(rule: Rule, name: str, kept: KeptInputs, results: Sequence[Any]) -> Any:
    if name == "result":
        if rule.outputs == 1:
            return SavedOutput(results[0])
        shown = len(results) - len(rule.hidden)
        return tuple([SavedOutput(result, nr) for nr, result in enumerate(results[:shown])])
    if name in rule.names:
        place = rule.names.index(name)
        return SavedOutput(results[place], place)
    if name in rule.hidden:
        place = len(results) - len(rule.hidden) + rule.hidden.index(name)
        return SavedOutput(results[place], place)
    place = rule.inputs.index(name)
    if rule.variadic and place == len(rule.inputs) - 1:
        return tuple([kept[nr] for nr in range(place, len(kept.inputs))])
    return kept[place]


def _record_rarely(node: RuleNode, in_place: bool) -> None:
    """Handle rare modes when a node is made: anomaly mode's stack, derivatives under no_grad."""
    if slow_path.anomaly:
        note_origin(node)
    if slow_path.duals is not None:
        slow_path.duals.refuse_without_formula(node, in_place)
        if not local.modes.grad_enabled:
            slow_path.duals.hidden.add(node)


def pack_saved(node: RuleNode) -> None:
    """Pass everything that a node saved to the pack hook."""
    own = PRIVATE.get(node.rule.node_name)
    save_hooks_of(node, node.saved, [place for place, name in enumerate(node.rule.saves) if name in own] if own else ())


def pack_in_vain(rule: Rule, inputs: Sequence[Any], error: Exception) -> None:
    """Show the pack hook the inputs of an op that failed: PyTorch saves inputs before it computes."""
    mark_shown(error)
    edges, modes = edges_of(rule, inputs), local.modes
    if (
        edges is None
        or slow_path.duals is not None
        or modes.pushing is not None
        or modes.saved_hooks_disabled is not None
    ):
        return
    pack, unpack, _ = modes.saved_hooks[-1]
    needed, kept = _needed(rule, edges), KeptInputs(inputs, [None] * len(inputs))
    for name in rule.saves:
        if name in needed and name in rule.inputs:
            value = _save_one(rule, name, kept, ())
            for part in value if type(value) is tuple else (value,):
                if type(part) is SavedInput:
                    Packed(part.tensor, part.tensor, pack, unpack)


def save_hooks_of(node: Node, saved: tuple[Any, ...], private: Collection[int] = ()) -> None:
    """Pass saved values to the innermost pack hook, if a `saved_tensors_hooks` block is active.

    `private`: indices of values that PyTorch does not have, which only undertow's own hooks see.
    """
    modes = local.modes
    active, level = modes.saved_hooks, slow_path.duals or modes.pushing
    if not active or modes.saved_hooks_disabled is not None or (level is not None and level.hides(node)):
        return
    pack, unpack, everything = active[-1]
    for place, value in enumerate(saved):
        if place in private and not everything:
            continue
        for part in value if type(value) is tuple else (value,):
            if isinstance(part, SavedValue):
                part.pack(node, pack, unpack)
