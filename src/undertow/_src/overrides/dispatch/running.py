"""The Dispatcher: how rules, writes and public functions are dispatched below autograd and recorded above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._ops import namespace
from undertow._src.arrays.quiet import quietly
from undertow._src.base.modes import local, slow_path
from undertow._src.base.tree import leaves
from undertow._src.engine.apply import place_operands
from undertow._src.engine.operands import compute, operands
from undertow._src.engine.outputs import bump
from undertow._src.engine.record import KeptInputs, edges_of, make_node, pack_saved, record
from undertow._src.engine.rule_node import MATCH_INPUT, RuleNode
from undertow._src.engine.saved import SavedInput, SavedOutput
from undertow._src.engine.views import link_view
from undertow._src.engine.writes import check_writable, rebase
from undertow._src.overrides.custom_operators import Operator
from undertow._src.overrides.dispatch import backward
from undertow._src.overrides.dispatch.calls import NAMES, Call, call_of, named
from undertow._src.overrides.dispatch.composites import COMPOSITES, noise
from undertow._src.overrides.dispatch.direct import direct_call, lifted
from undertow._src.overrides.dispatch.offering import CLASSES, aten, is_dispatched, note_class, offer, without_dispatch
from undertow._src.overrides.dispatch.offering import run as run_operator
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import InferenceStorage, TensorCore, wrap

Statics = dict[str, Any]


def run_rule(rule: Rule, inputs: tuple[Any, ...], statics: Statics) -> Any:
    """Run a rule on tensors: dispatch it, then record it as usual."""
    place_operands(inputs)
    composite = COMPOSITES.get(rule.name)
    if composite is not None:
        found = composite(rule, inputs, statics)
        if found is not NotImplemented:
            return found
    call = call_of(rule, inputs, statics) or (named(NAMES.get(rule.name, rule.name)), inputs, {})
    arrays, post_grad, _ = quietly(operands, rule, inputs)
    hidden: list[Any] = []
    count = len(rule.hidden)

    def here() -> Any:
        with without_dispatch():
            results = [wrap(value) for value in quietly(compute, rule, inputs, statics)[2]]
        shown = len(results) - count
        hidden[:] = results[shown:]
        if rule.view:
            link_view(rule, inputs[0], tuple(results[:shown]), statics)
        return as_returned(call, rule, results)

    given = offer(*call, here)
    shown = [checked(part, inputs) for part in _listed(given)]
    if rule.outputs:
        parts, shown = shown, shown[: rule.outputs]
        hidden[: len(parts) - rule.outputs] = parts[rule.outputs : rule.outputs + count]
    if len(hidden) < count:  # the handler did not run the operator itself
        hidden += _hidden_again(rule, inputs, statics)[len(hidden) :]
    results = (*shown, *hidden)
    if local.modes.inference:
        for result in shown:
            result._storage = InferenceStorage()
    with packing_later():
        record(rule, inputs, arrays, results, len(shown), statics, post_grad)
    keep_detached(results)
    if rule.view:
        link_view(rule, inputs[0], tuple(shown), statics)
    return results[0] if rule.outputs == 1 else tuple(shown)


def _hidden_again(rule: Rule, inputs: tuple[Any, ...], statics: Statics) -> list[Any]:
    """Recompute what a rule saves besides its results; wrapper tensors have no values to compute it from."""
    if any(type(each) in CLASSES for each in inputs):
        return [wrap(np.empty(0, np.float32)) for _ in rule.hidden]
    with without_dispatch():
        return [wrap(value) for value in quietly(compute, rule, inputs, statics)[2]][-len(rule.hidden) :]


def as_returned(call: Call, rule: Rule, results: list[Any]) -> Any:
    """Return a rule's results in the form in which its operator returns them."""
    if call[0].namespace != "aten":
        return results[0] if rule.outputs == 1 else tuple(results[: len(results) - len(rule.hidden)])
    returns = call[0]._schema.returns
    if rule.outputs == 0 or (len(returns) == 1 and "[]" in returns[0].type):
        return results[: len(results) - len(rule.hidden)]
    if len(returns) <= 1:
        return results[0]
    missing = len(returns) - len(results)
    return (*results[: len(returns)], *[wrap(np.empty(0, np.float32)) for _ in range(missing)])


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (tuple, list)) else [given]


def checked(given: Any, inputs: Sequence[Any]) -> Any:
    """Return a tensor that a handler returned; an argument is wrapped in a new tensor, which may get a history."""
    if not isinstance(given, TensorCore):
        raise RuntimeError(f"Unable to cast {given!r} to Tensor")
    if any(given is each for each in inputs):
        with without_dispatch():
            return given.detach()
    return given


# --- results that are saved


class SavedDetached(SavedOutput):
    """A saved result as PyTorch keeps it: detached, and detached once more when it is read.

    One that has no gradient (`carries` is false) is kept unchanged.
    """

    __slots__ = ("tensor", "carries")

    def __init__(self, saved: SavedOutput, tensor: Any, carries: bool = True) -> None:
        self.array, self.storage, self.version = saved.array, saved.storage, saved.version
        self.output_nr, self.packed = saved.output_nr, saved.packed
        self.tensor, self.carries = tensor, carries

    def open(self, node: Any) -> Any:
        if self.packed is not None:
            return super().open(node)
        self.raw(node)
        tensor = self.tensor
        if not self.carries:
            return tensor
        if is_dispatched((tensor,)):
            tensor = offer(aten("detach"), (tensor,), {})
        else:
            with without_dispatch():
                tensor = tensor.detach()
        if self.output_nr < node._n_outputs and tensor._array.dtype.kind in "fcV":
            tensor._edge, tensor._requires_grad = self.place(node), True
        return tensor

    def held(self) -> Any:
        return self.tensor


class packing_later:
    """Delay pack hooks inside the block: what a node saves is detached first, then packed (`keep_detached`)."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        modes = local.modes
        self.before, modes.saved_hooks = modes.saved_hooks, []

    def __exit__(self, *exception: object) -> None:
        local.modes.saved_hooks = self.before


def keep_detached(results: Sequence[Any], node: Any = None) -> None:
    """Detach a node's saved results, in view of the dispatch modes, then pack them."""
    if node is None:
        node = next((result._edge[0] for result in results if result._edge is not None), None)
    if not isinstance(node, RuleNode) or not isinstance(node.saved, tuple):
        return

    def keep(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([keep(part) for part in value])
        if not isinstance(value, SavedOutput) or value.packed is not None or value.output_nr >= len(results):
            return value
        result = results[value.output_nr]
        computed = result._edge is not None and result._edge[0] is node
        if not computed and node.rule.node_name != "NativeGroupNormBackward0":  # its statistics count as results
            return SavedDetached(value, result, carries=False) if type(result) in CLASSES else value
        return SavedDetached(value, offer(aten("detach"), (result,), {}))

    node.saved = tuple([keep(value) for value in node.saved])
    if local.modes.saved_hooks:
        pack_saved(node)


# --- writes


def run_write(
    rule: Rule, target: Any, others: tuple[Any, ...], statics: Statics, write: Callable[[], Any] | None = None
) -> Any:
    """Dispatch a rule whose result is written over its first input. `write` computes it without overrides."""
    inputs = (target, *others)
    place_operands(inputs)
    call = call_of(rule, inputs, statics, in_place=True)
    if call is None:
        call = (named(NAMES.get(rule.name, rule.name) + "_"), inputs, {})
    edges = edges_of(rule, inputs)
    check_writable(target, edges is not None)
    arrays, post_grad, _ = quietly(operands, rule, inputs)
    kept = None
    if edges is not None:
        kept = KeptInputs(inputs, arrays)
        wanting = [rule.needed[min(nr, len(rule.needed) - 1)] for nr, edge in enumerate(edges) if edge is not None]
        if rule.inputs[0] in rule.saves and any(rule.inputs[0] in names for names in wanting):
            before = offer(aten("clone"), (target,), {})
            before._edge, before._requires_grad = target._edge, target._requires_grad
            kept[0] = SavedInput(before)
        kept.freeze(rule, edges)
    version = target._get_storage().version
    offer(*call, write)
    if target._get_storage().version == version:  # a wrapper tensor has no buffer to write to
        bump(target)
    if edges is not None:
        with packing_later():
            node = make_node(rule, edges, inputs, kept, (target,), statics, post_grad | MATCH_INPUT)
        rebase(target, node)
        keep_detached((target,), node)
    return target


def show_view(rule: Rule, target: Any, statics: Statics) -> None:
    """Dispatch an op that turns a tensor into a view of itself (`t_`); the caller does it afterwards in any case."""
    call = call_of(rule, (target,), statics, in_place=True) or (named(rule.name + "_"), (target,), {})
    offer(*call, lambda: target)


def run_custom(operator: Operator, kernel: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Dispatch an operator that a program has registered."""
    if not is_dispatched(leaves((args, kwargs))):
        return kernel(*args, **kwargs)
    space, _, name = operator.name.partition("::")
    func = getattr(getattr(namespace(space), name), operator.schema.overload_name or "default")
    return offer(func, args, kwargs, lambda: kernel(*args, **kwargs))


# --- the interface to the layers below


class Dispatcher:
    """What the layers below call once operators may be overridden: `modes.slow_path.dispatcher`."""

    takes = staticmethod(is_dispatched)
    run = staticmethod(run_rule)
    write = staticmethod(run_write)
    custom = staticmethod(run_custom)
    show_view = staticmethod(show_view)
    direct = staticmethod(direct_call)
    lifted = staticmethod(lifted)
    noise = staticmethod(noise)
    called = staticmethod(offer)
    disabled = staticmethod(run_operator)
    note_class = staticmethod(note_class)
    is_class = staticmethod(CLASSES.__contains__)
    watches = staticmethod(backward.watches)
    gradients = staticmethod(backward.gradients)
    seed = staticmethod(backward.seed)
    accumulated = staticmethod(backward.accumulated)

    @staticmethod
    def takes_call(args: Any, kwargs: Any) -> bool:
        """Whether `func(*args)` is called by a handler, and so goes to the next one in turn."""
        return local.modes.dispatch_depth > 0


slow_path.dispatcher = Dispatcher()
