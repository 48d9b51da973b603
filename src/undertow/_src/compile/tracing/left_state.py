"""What a step leaves: its result, and the values that it put into Python objects."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.callbacks.hook_facts import unchanged_by_stores
from undertow._src.compile.callbacks.hook_placement import HookPlacer
from undertow._src.compile.effects import Read
from undertow._src.compile.errors import CompileError, RunsAsWritten
from undertow._src.compile.guards.carried_state import look_of
from undertow._src.compile.guards.places import ABSENT, Place, changes_in, place_at
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.tracing.arguments import Handed
from undertow._src.compile.tracing.results import (
    cached_by,
    forget_cached,
    graph_is_left,
    nodes_behind,
    objects_cached_by,
    objects_in,
    refuse_hidden,
    scalars_cached_by,
    scalars_in,
    tensors_in,
    values_in,
)
from undertow._src.compile.tracing.stand_in_types import StandInType
from undertow._src.compile.tracing.step_inputs import StepInputs, refuse_places
from undertow._src.compile.tracing.symbolic_scalars import ScalarBecameConstant, SymbolicScalar
from undertow._src.compile.tracing.trace_state import Trace

Entry = tuple[Any, Any, Any]  # the object that holds a value, the key, and the value


@dataclass(frozen=True, eq=False)
class LeftState:
    """What a step leaves, from the trace; each call makes its own."""

    result: Any
    entries: list[Entry]
    only_if: dict[int, DeviceArray]  # by index in `entries`: whether it is left, if that depends on the call
    known: Container[int]  # ids of objects from before the trace
    own_objects: set[int]  # ids of objects that the step makes
    scalars: list[tuple[SymbolicScalar, DeviceArray]]  # numbers in graphs, and buffers that keep them
    has_numbers: bool  # whether symbolic scalars are among it
    runs_once: bool  # whether the step makes optimizers' first state: no later step is like it
    early: list[tuple[Any, Any]]  # entries that come before those which callbacks add
    unchanged: list[Read]  # places that hooks in the program stored into without a change

    def parts(self) -> list[Any]:
        """Return the result and all values of entries."""
        return [self.result, *[value for _, _, value in self.entries if value is not ABSENT]]


def find_left_state(
    result: Any, inputs: StepInputs, plan: Plan, placer: HookPlacer, trace: Trace, handed: Handed
) -> LeftState:
    """At the end of a trace, find what the step left, and refuse what a program can't leave."""
    known, guards, state = inputs.known, inputs.guards, inputs.state
    entries = _settle(inputs, plan, placer)
    _leave_own(result, entries, known, placer, trace)
    _drop_inputs_of_host(entries, inputs, plan, placer)
    unchanged = [
        *unchanged_by_stores(
            placer.in_program.stored, placer.in_program.stores, lambda *place: _is_guarded(inputs, *place)
        )
    ]
    parts = [result, *[value for _, _, value in entries if value is not ABSENT]]
    places = {place_at(holder, key) for holder, key, _ in entries if not isinstance(key, slice)}
    handed.refuse_to_leave([*parts, *[entry[1] for entry in entries]], known)
    inputs.counters.check(entries, result, known)
    placer.refuse_shared(entries)
    # The new value of a place depends on the old one, so the place is guarded even if the host changes it.
    left_at = {place_at(holder, None if isinstance(key, slice) else key) for holder, key, _ in entries}
    changed_on_host = placer.changed_on_host() - left_at
    guards.ignore(changed_on_host | inputs.entry.large_arrays_in(trace.memory.host_memories()[1]))
    if values_in(parts, known, StandInType):  # a result of `type(n)`
        trace.rule_out_stand_ins()
    graphs = [tensor._edge for tensor in tensors_in(parts, known) if graph_is_left(tensor)]
    scalars = [(each, DeviceArray(each.traced)) for each, _ in scalars_in(nodes_behind(graphs))]
    only_if = _left_only_if(entries, trace.chosen)
    states = {id(optimizer.state) for optimizer in state.optimizers}
    stand_ins = inputs.given.own()
    refuse_hidden(parts, known, lambda tensor: trace.memory.is_made(tensor) or id(tensor) in stand_ins)
    _refuse_caches(inputs, trace)
    _follow_caches(inputs, plan)
    objects = objects_in(parts, known)
    own_objects = trace.own_among(objects.values())
    placer.mirrors.leave({*objects, *handed.ids()})
    inputs.given.note_changes()
    refuse_places(inputs.given.renewed, plan)
    guards.watches_gradients = bool(
        trace.gradient_use.any or state.optimizers or any(entry[1] == "grad" for entry in entries)
    )
    return LeftState(
        result, entries, only_if, known, own_objects, scalars,
        has_numbers=bool(scalars or values_in(parts, known, SymbolicScalar)),
        runs_once=any(id(entry[0]) in states and place not in only_if for place, entry in enumerate(entries)),
        early=[place for place in placer.calls.early if place_at(*place) in places],
        unchanged=unchanged,
    )  # fmt: skip


def _leave_own(result: Any, entries: list[Entry], known: Container[int], placer: HookPlacer, trace: Trace) -> None:
    """Leave mappings as they are that hooks in the program filled, if the step has made them and leaves them."""
    stores = placer.in_program.stores
    left = objects_in([result, *[value for _, _, value in entries if value is not ABSENT]], known) if stores else {}
    own = {id(holder) for holder, _ in stores if id(holder) in left and trace.is_of_step(holder)}
    if own:
        stores[:] = [each for each in stores if id(each[0]) not in own]
        entries[:] = [each for each in entries if id(each[0]) not in own]


def _drop_inputs_of_host(entries: list[Entry], inputs: StepInputs, plan: Plan, placer: HookPlacer) -> None:
    """Raise Retrace to drop inputs that calls on the host change.

    Otherwise the host would see only the final value of a counter, and the old one of a tensor that is replaced.
    """
    shared = [place for place in placer.changed_on_host() if place in plan.counters] if inputs.counters.places else []
    for place in shared:
        del plan.counters[place]
    left = {place_at(holder, key) for holder, key, _ in entries if not isinstance(key, slice)}
    replaced = [place for place, where in plan.replaced.items() if place not in left and placer.changes_on_host(*where)]
    for place in replaced:
        del plan.replaced[place]
    if shared or replaced:
        raise Retrace


def _settle(inputs: StepInputs, plan: Plan, placer: HookPlacer) -> list[Entry]:
    """Return the places in which the step left values, with these values."""
    left: list[Entry] = []
    entry = inputs.entry
    noted = len(plan.replaced) + len(plan.counters)
    entered = {place_at(holder, None) for holder, _ in entry.maps}
    others: dict[Place, tuple[Any, dict[Any, Any]]] = {}
    for holder, held in placer.in_program.stores:
        others.setdefault(place_at(holder, None), (holder, held))  # an earlier trace found it unchanged
    changes = [each for place, pair in others.items() if place not in entered for each in changes_in(*pair)]
    inputs_at = inputs.given.renewed.untouched() | inputs.counters.untouched()
    for holder, key, before, now in (*entry.changes(), *changes):
        found = None if isinstance(key, slice) else inputs_at.get(place_at(holder, key))
        if found is not None and now is found[0]:  # the value that each call finds there, not this trace's
            if before is not found[1]:
                left.append((holder, key, found[1]))
            continue
        left.append((holder, key, now))
        if not isinstance(key, slice):
            if now is not before:  # else only its position among the entries is different
                _note_renewed(inputs, plan, holder, key, before, now)
        elif len(before) == len(now) and not isinstance(holder, set):
            for number, (was, value) in enumerate(zip(before, now)):
                if value is not was:
                    _note_renewed(inputs, plan, holder, number, was, value)
    left += [*inputs.counters.set_again, *inputs.given.renewed.set_again]  # each call finds something else there
    for tensor, before in entry.grads:
        meta = tensor._meta
        now = None if meta is None else meta.grad
        if now is not before:
            left.append((meta, "grad", now))
    left += [
        (tensor, "_requires_grad", not flag)
        for tensor, flag in entry.flags
        if tensor._requires_grad is not flag and tensor._edge is None
    ]
    if len(plan.replaced) + len(plan.counters) > noted:
        raise Retrace
    return left


def _note_renewed(inputs: StepInputs, plan: Plan, holder: Any, key: Any, before: Any, now: Any) -> None:
    """Make a place an input in the next trace: it has new tensors with the same signature, or a new number."""
    here = place_at(holder, key)
    if inputs.given.renewed.holds_place(holder, key) or inputs.counters.holds_place(holder, key):
        return
    if type(before) in (int, float) and type(now) in (int, float):
        if plan.counts and not plan.plain_numbers:
            plan.counters[here] = (holder, key)
    elif here not in plan.watched and tensors_in(before):
        look = look_of(before, shapes=False, grads=False)
        if look is not None and look == look_of(now, shapes=False, grads=False):
            plan.replaced[here] = (holder, key)


def _is_guarded(inputs: StepInputs, holder: Any, key: Any) -> bool:
    """Return whether a place is guarded already, or an input."""
    read = inputs.given.renewed, inputs.counters
    return inputs.entry.covers(holder, key) or any(each.holds_place(holder, key) for each in read)


def _left_only_if(entries: list[Entry], chosen: dict[tuple[int, Any], DeviceArray]) -> dict[int, DeviceArray]:
    places = [place for place, entry in enumerate(entries) if isinstance(entry[0], dict)]
    keys = {place: (id(entries[place][0]), entries[place][1]) for place in places}
    return {place: chosen[key] for place, key in keys.items() if key in chosen}


def _follow_caches(inputs: StepInputs, plan: Plan) -> None:
    """Raise Retrace if the trace has filled caches with objects that may change: the next one finds them there."""
    seen, caches = inputs.state.seen, [cache for cache, _ in inputs.state.caches]
    if not plan.finds_cached and any(id(each) not in seen for cache in caches for each in objects_cached_by(cache)):
        plan.finds_cached = True
        raise Retrace


def _refuse_caches(inputs: StepInputs, trace: Trace) -> None:
    """Run a call that fills caches with tensors eagerly: later calls find them full."""
    caches = inputs.state.caches
    if any(scalars_cached_by(cache) for cache, _ in caches):
        raise ScalarBecameConstant
    had_others = {name: not all(map(trace.memory.is_made, cached_by(cache))) for cache, name in caches}
    for name in forget_cached(caches, trace.memory.is_made):
        if had_others[name]:
            raise CompileError(
                f"undertow.compile: `{name}` caches its results (functools.lru_cache), and its cache would hold a tensor "
                "of "
                "the program beside others. Fill it before the step: call it once with each argument that the step gives "
                "it."
            )
        raise RunsAsWritten(f"`{name}` caches its results (functools.lru_cache), and had cached no tensor before")
