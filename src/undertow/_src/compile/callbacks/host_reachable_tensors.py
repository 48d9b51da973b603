"""Tensors that hooks on the host find in lists, dicts, objects and variables, besides their arguments.

Such a tensor has the value from before the step. If the step writes to it before the hook fires, the hook has to see the
new value: `HostFinds` records such tensors at the end of a trace, and the next trace updates them for the hook. Other
tensors may come there later; `host_read_guard.py` guards that.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.compile.callbacks.hook_view import tensors_of
from undertow._src.compile.callbacks.host_calls import HostCall
from undertow._src.compile.callbacks.host_mirrors import HostMirrors
from undertow._src.compile.effects import Effects, Place
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.host_read_guard import FOUND, HostReads, found_at, is_container, value_at
from undertow._src.compile.guards.places import ABSENT, PLAIN
from undertow._src.compile.guards.places import Place as StatePlace
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.tracing.current_trace import running_trace


@dataclass(eq=False)
class HookScope:
    """Facts about the step that hooks belong to. `known` is None if it does not matter."""

    known: Container[int] | None = None  # ids of the modules and optimizers that the step is known to use
    states: set[int] = field(default_factory=set)  # ids of optimizers' states
    groups: set[int] = field(default_factory=set)  # ids of optimizers' groups, whose numbers are inputs
    gradients: set[int] = field(default_factory=set)  # ids of gradients that only their leaves reach
    entry: Snapshot | None = None  # the Python state before the trace
    stand_ins: dict[StatePlace, Any] = field(default_factory=dict)  # contents of places that are program inputs


class HostFinds:
    """The tensors that a trace's hooks and statements on the host find."""

    def __init__(self, plan: Plan, scope: HookScope, mirrors: HostMirrors, hosted: list[tuple[Any, Effects]]) -> None:
        self._plan, self._scope, self._mirrors, self._hosted = plan, scope, mirrors, hosted
        self.reads = HostReads()  # at the end of the trace
        self._writable: list[tuple[Any, int]] = []  # tensors that calls find and may write to; ids of their buffers
        self._changed_arrays: list[tuple[HostCall, int]] = []  # calls that write to arrays; ids of buffers over these

    def shown_to(self, effects: Effects) -> list[Any]:
        """Return the tensors that a call on the host finds, and that an earlier trace has recorded for it."""
        shown = self._plan.shown
        places = self._looked_at(effects.places) if shown else []
        found = {id(each) for place, deep in places for each in _memories(found_at(place, deep))}
        return [tensor for key, (_, tensor) in shown.items() if key in found]

    def note(self, calls: list[tuple[Effects, HostCall]]) -> None:
        """Record what calls on the host find. Trace again if the step writes to tensors that have no mirror for them."""
        if self._scope.entry is None:
            return
        every = {(id(each.owner), each.name): each for _, effects in self._hosted for each in effects.places}
        looked_at = self._looked_at(every.values())
        found = [each for place, deep in looked_at for each in found_at(place, deep)]
        if any(id(each) in running_trace().counts for each in _memories(found)):
            running_trace().count_inside()
        shown = self._shown_to_all(calls)
        written = [
            (each, owner)
            for each, owner in self._written_among(found)
            if id(each) not in self._plan.shown and _buffer_of(owner) not in shown.values()
        ]
        self._show(written)
        self._find_writable(calls)
        state = running_trace().state
        self.reads = HostReads(
            [place for place, deep in looked_at if deep],
            {id(each): each for each in found if id(each) in (self._scope.known or ())},
            {*map(id, (*state.tensors, *state.modules, *state.optimizers))} - shown.keys(),
            {*shown.values()},
            any(its.writes for its, _ in calls),
        )

    def show_used(self, buffers: set[int]) -> None:
        """Trace again if calls on the host may write to what a program uses, given the ids of its buffers."""
        for call, buffer in self._changed_arrays:
            if buffer in buffers:
                raise CompileError(
                    f"undertow.compile: {call.placed} writes to a NumPy array over the memory of a tensor that the step "
                    "uses, and the program can't see that. Write to the tensor."
                )
        self._show([(each, each) for each, buffer in self._writable if buffer in buffers])

    def _show(self, found: list[tuple[Any, Any]]) -> None:
        """Trace again if tensors were found that need mirrors."""
        if found:
            self._plan.shown.update({id(each): (each, owner) for each, owner in found})
            self._plan.roots += [(owner, "a tensor that a hook finds") for _, owner in found]
            raise Retrace

    def _find_writable(self, calls: list[tuple[Effects, HostCall]]) -> None:
        """Record tensors that calls on the host find and may write to, and that have no mirror for them."""
        buffers = [buffer for buffer, _, _ in running_trace().memory.buffers.values()]
        for its, call in calls:
            changed = [effect.target for effect in its.effects if isinstance(effect.target, np.ndarray)]
            self._changed_arrays += [
                (call, id(buffer)) for array in changed for buffer in buffers if _stands_on(array, [buffer])
            ]
            shown = {*map(_buffer_of, call.view.tensors_from_outside())}
            places = self._looked_at(its.places) if its.writes else []
            for each in _memories([each for place, deep in places for each in found_at(place, deep)]):
                if not isinstance(each, np.ndarray) and id(each) not in self._plan.shown:
                    stood_on = [id(buffer) for buffer in buffers if _stands_on(each._array, [buffer])]
                    self._writable += [(each, buffer) for buffer in stood_on if buffer not in shown]

    def _shown_to_all(self, calls: list[tuple[Effects, HostCall]]) -> dict[int, int]:
        """Return what all calls that read unguarded places see: ids of tensors, and of their memories."""
        readers = [call for its, call in calls if any(deep for _, deep in self._looked_at(its.places))]
        views = [{id(each): _buffer_of(each) for each in call.view.tensors_from_outside()} for call in readers]
        return {key: buffer for key, buffer in views[0].items() if all(key in view for view in views)} if views else {}

    def _looked_at(self, places: Iterable[Place]) -> list[tuple[Place, bool]]:
        """Return places that code reads, each with whether the code reads the contents of values there.

        Code that only appends to a list does not read its contents.
        """
        owners = {id(place.owner) for place in places}
        looked_at: list[tuple[Place, bool]] = []
        for place in places:
            value = None if is_container(place) else value_at(place)
            looks = isinstance(value, (*FOUND, tuple, frozenset, *PLAIN)) or value is ABSENT
            looks = looks or not owners.isdisjoint((id(value), id(instance_dict(value))))
            looked_at.append((place, looks and self._is_unguarded(place)))
        return looked_at

    def _is_unguarded(self, place: Place) -> bool:
        """Return whether a place may change unguarded: calls on the host change it, or only they use it."""
        effects = [effect for _, its in self._hosted for effect in its.effects]
        if any(Place(effect.target, effect.attribute).overlaps(place) for effect in effects):
            return True
        entry, holders = self._scope.entry, (place.owner, instance_dict(place.owner))
        return entry is None or not any(entry.covers(holder, place.name) for holder in holders)

    def _written_among(self, found: list[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield the tensors and arrays from before the step that it writes to, each with the tensor with its value."""
        memory, entry = running_trace().memory, self._scope.entry
        written = [buffer for buffer, _, _ in memory.buffers.values() if buffer.writes]
        on_host = [buffer for buffer in written if buffer.host is not None]
        gradients = {} if entry is None else {id(tensor): before for tensor, before in entry.grads}
        for each in _memories(found):
            if isinstance(each, np.ndarray):
                buffer = next((other for other in on_host if np.may_share_memory(each, other.host)), None)
                if buffer is not None:
                    yield each, self._owner_of(buffer)
            elif not self._mirrors.is_argument(each):
                grad = None if each._meta is None else each._meta.grad
                arrays = [shown._array for shown in (each, grad) if shown is not None]
                changed = grad is not gradients.get(id(each), grad)
                if (changed or any(_stands_on(array, written) for array in arrays)) and running_trace().is_older(each):
                    yield each, each

    def _owner_of(self, buffer: Buffer) -> Any:
        """Return the tensor whose memory a NumPy array shares."""
        owner = running_trace().memory.owner_of(buffer)
        if owner is None or (self._mirrors.is_argument(owner) and id(owner) not in self._scope.gradients):
            raise CompileError(
                "undertow.compile: a hook on the host reads a NumPy array over the memory of an argument, to which the "
                "step writes. Let it read a copy()."
            )
        return owner


def _memories(found: list[Any]) -> list[Any]:
    """Return the tensors and arrays among some values, and the tensors of modules and optimizers."""
    tensors = [each for value in found for each in tensors_of(value) if each._is_strided]
    return tensors + [each for each in found if isinstance(each, np.ndarray)]


def _buffer_of(tensor: Any) -> int:
    return id(tensor._array.buffer) if type(tensor._array) is DeviceArray else 0


def _stands_on(array: Any, buffers: list[Buffer]) -> bool:
    if type(array) is DeviceArray:
        return any(array.buffer is buffer for buffer in buffers)
    return any(buffer.host is not None and np.may_share_memory(array, buffer.host) for buffer in buffers)
