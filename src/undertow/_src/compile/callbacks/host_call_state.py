"""The state of calls on the host: what hooks and statements find in the step's objects, as eager code would find it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, MutableMapping
from dataclasses import dataclass, field
from types import CellType
from typing import Any

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.jax.tracing import is_traced
from undertow._src.base.tree import leaves
from undertow._src.compile.callbacks.hook_closures import carried_by, fixed_in, function_of
from undertow._src.compile.callbacks.hook_view import tensors_of
from undertow._src.compile.callbacks.host_calls import DeferredCallback, HostCall, Placed
from undertow._src.compile.callbacks.host_mirrors import HostMirrors
from undertow._src.compile.callbacks.host_reachable_tensors import HookScope, HostFinds
from undertow._src.compile.callbacks.possible_aliases import PossibleAliases
from undertow._src.compile.callbacks.registrations import Registrations, where_defined
from undertow._src.compile.callbacks.step_objects import ChangedObjects
from undertow._src.compile.effects import Effect, Effects, Read
from undertow._src.compile.effects import Place as EffectPlace
from undertow._src.compile.effects.effect_log import CACHED
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import (
    ABSENT,
    PLAIN,
    Change,
    Place,
    Places,
    Slots,
    Stores,
    contents_of,
    held_at,
    holder_of,
    place_at,
)
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.splitting.host_statements import PlacedStatement, Returned, Statement
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.results import objects_in, tensors_in, values_in
from undertow._src.compile.tracing.sparse_parts import is_sparse, parts_of_sparse
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer


@dataclass(eq=False)
class PlacedCalls:
    """The calls on the host that a trace has placed, and the facts about them that a program needs."""

    host_calls: list[HostCall] = field(default_factory=list)
    later: list[DeferredCallback] = field(default_factory=list)
    begins: list[DeferredCallback] = field(default_factory=list)  # calls that are made before the program
    turns: list[DeferredCallback] = field(default_factory=list)  # after it, with the witness's arguments, in order
    placed: list[Placed] = field(default_factory=list)  # hooks in the program, too
    raised: list[BaseException] = field(default_factory=list)  # by hooks that the program waits for
    has_inside: bool = False  # whether there are such hooks
    has_collectives: bool = False  # whether the program communicates with other ranks
    before_collectives: set[int] = field(default_factory=set)  # ids of the calls that come before it does
    abandon: Callable[[BaseException], None] | None = None  # tells other ranks of an error after the program
    returned: Returned | None = None  # the statement that gives the step's result
    early: list[tuple[Any, Any]] = field(default_factory=list)  # entries that the step adds before calls add more
    shown: set[int] = field(
        default_factory=set
    )  # ids of buffers from outside in which calls find what was there before


@dataclass(eq=False)
class TracedHooks:
    """The hooks that became part of the program, and what they read and stored."""

    traced: list[tuple[Any, Effects]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)  # values that they depend on
    stores: Stores = field(default_factory=list)  # where they store something, and what was there
    stored: list[tuple[MutableMapping[Any, Any], Effect]] = field(default_factory=list)  # those stores


class HostState:
    """What the calls on the host of a trace read and find, and the plan that a new trace follows if that is not known."""

    def __init__(self, plan: Plan, registrations: Registrations, known: Container[int] | None = None) -> None:
        self.plan, self.registrations = plan, registrations
        self.scope, self.calls, self.in_program = HookScope(known), PlacedCalls(), TracedHooks()
        self.mirrors = HostMirrors()
        self.aliases = PossibleAliases(self.mirrors)
        self._calls: list[tuple[Effects, HostCall]] = []  # the known effects of each, until the end of the trace
        self.fired = 0  # the number of hooks and probed statements in the trace so far
        self._waited_for: list[tuple[Any, Effects]] = []  # hooks that the program waits for
        self.hosted: list[tuple[Any, Effects]] = []
        self.finds = HostFinds(plan, self.scope, self.mirrors, self.hosted)
        self._added_to: set[Place] = set()  # mappings to which calls on the host add entries
        self.variables: dict[int, tuple[CellType, Any]] = {}  # of the step, that the host updates
        self.changed = ChangedObjects()

    def _find_state(self, effects: Effects) -> None:
        """Treat modules, optimizers and tensors that only a hook reaches as the step's state, too: trace again."""
        if self.scope.known is None:
            return
        held = [(each, read.name) for read in (*effects.holds, *effects.reads) for each in _parts(read.get())]
        new = [
            (each, name)
            for each, name in held
            if (self._has_state(each) or id(each) in self.scope.gradients)
            and id(each) not in self.scope.known
            and not (isinstance(each, TensorCore) and running_trace().memory.is_made(each))  # the next trace's is new
        ]
        if new:
            self.plan.roots += new
            raise Retrace

    def _find_caches(self, effects: Effects) -> None:
        """Treat the contents of a function's cache as state of the step, if a hook in the program calls the function."""
        known = self.scope.known
        new = [each for each in effects.objects if type(each) is CACHED and known is not None and id(each) not in known]
        if new:
            self.plan.roots += [(each, each.__name__) for each in new]
            raise Retrace

    def _has_state(self, value: Any) -> bool:
        """Return whether it is a module, an optimizer, or a tensor that is neither an argument nor made by the step."""
        if not isinstance(value, TensorCore):
            return isinstance(value, (Module, Optimizer))
        if not (value._is_strided and type(value._array) is DeviceArray and is_traced(value._array.value)):
            return True
        # It may be an alias of a known tensor, made by the step or before it.
        return not self.mirrors.is_argument(value) and running_trace().is_older(value)

    def _found(self, hook: Any, effects: Effects) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Return what a hook on the host finds by name: tensors whose identity matters, and places.

        Places are those with a number that the step changes, or with a tensor that is new in each call.
        """
        renewed = [read for read in effects.holds if read.kept_at is not None and self._is_renewed(read.get())]
        found = [
            tensor for read in effects.holds if not self._is_renewed(read.get()) for tensor in tensors_of(read.get())
        ]
        found += [
            tensor for its, call in self._calls if its.feeds(effects) for tensor in call.view.tensors_from_outside()
        ]
        found += self.finds.shown_to(effects)
        places = self._options(effects) + self._changed_by_now(effects)
        known = {place_at(holder, None if isinstance(key, slice) else key) for holder, key in places}
        for kept in [read.kept_at for read in renewed if read.kept_at is not None]:
            if not isinstance(kept[0], tuple) and {place_at(*kept), place_at(kept[0], None)}.isdisjoint(known):
                places.append(kept)
        return found, places + self._captured(hook, effects, places)

    def _captured(self, hook: Any, effects: Effects, places: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Return further places: those in which a hook that the step makes holds tensors that are new in each call."""
        for function in effects.functions:
            if function is not function_of(hook):
                self._refuse_fixed(hook, (function.__defaults__, function.__kwdefaults__), function.__qualname__)
        self._refuse_fixed(hook, fixed_in(function_of(hook)), type(hook).__name__)
        known = {place_at(*each) for each in places if not isinstance(each[1], slice)}
        found = {id(each) for place in places for each in tensors_in(held_at(*place))}
        found |= {id(each) for each in tensors_in(carried_by(hook))}
        changed = {id(effect.target) for effect in effects.effects}
        more: list[tuple[Any, Any]] = []
        for cell in [cell for function in effects.functions for cell in function.__closure__ or ()]:
            held = contents_of(cell)
            self._refuse_fixed(hook, fixed_in(held), getattr(held, "__name__", type(held).__name__))
            if place_at(cell, None) not in known and self._is_anew(cell, found, changed):
                known.add(place_at(cell, None))
                more.append((cell, None))
        found |= {id(each) for place in more for each in tensors_in(held_at(*place))}
        for read in effects.holds:
            if self._is_renewed(read.get()) and id(read.get()) not in found:
                self._keep(hook)
                raise self._refusal(
                    hook,
                    f"it reads {read.name}, a tensor of this call, from a place where later calls can't put theirs. "
                    "Give it the tensor in a variable of its closure, or as an argument",
                )
        return more

    def _is_anew(self, cell: CellType, found: set[int], changed: set[int]) -> bool:
        """Return whether the value of a variable is a different one in each call.

        True for a tensor that is found nowhere else, a number of the program, or a container that the step makes and a hook
        changes.
        """
        value, outside = contents_of(cell), running_trace().before.seen
        if any(self._is_renewed(each) and id(each) not in found for each in tensors_in(value, outside)):
            return True
        if values_in(value, outside, SymbolicScalar):
            return True
        if not running_trace().is_recent(cell, value):  # as everything that hooks of a backward program hold
            return False
        return running_trace().is_own(value) and not changed.isdisjoint(objects_in(value, outside))

    def _refuse_fixed(self, hook: Any, held: Any, name: str) -> None:
        """Refuse tensors of this trace in places that can't be refilled."""
        if any(map(self._is_renewed, leaves(held))):
            self._keep(hook)
            why = (
                f"it uses `{name}`, which the step has made around a tensor, so that later calls can't put theirs there"
            )
            raise self._refusal(
                hook, f"{why}. Let a variable of the closure hold the tensor, or pass it as an argument"
            )

    def _is_renewed(self, value: Any) -> bool:
        """Return whether a tensor is new in each call: one that the step computes, or an argument."""
        return _is_computed(value) or self.mirrors.is_argument(value)

    def _changed_by_now(self, effects: Effects) -> list[tuple[Any, Any]]:
        """Return the places that the step has changed so far: this call on the host must find these changes.

        A place with tensors is included only if the call reads it: each tensor is one more output of the program.
        """
        if self.scope.entry is None:
            return []
        states = [
            EffectPlace(state) for each in _optimizers_in(effects) for state in (each.state, *each.state.values())
        ]
        read, changed = (
            Places([*effects.places, *states]),
            Places(map(effect_place, effects.effects)),
        )  # see `refuse_shared`
        # Parameters that `functional_call` replaces can be found in many ways, such as `model.parameters()`.
        of_modules = {id(own) for each in running_trace().state.modules for own in (each._parameters, each._buffers)}
        looks_anywhere = any(effect.field == "unknown" for effect in effects.effects)
        changes = [*self.scope.entry.changes()]
        self._note_early(effects, changes)
        return [
            (change.holder, change.key)
            for change in changes
            if not self._is_stand_in(change)
            and not changed.meet(change.holder, change.key)
            and (
                looks_anywhere
                or id(change.holder) in of_modules
                or read.meet(change.holder, change.key)
                or not tensors_in(change.now)
            )
        ]

    def _note_early(self, effects: Effects, changes: list[Change]) -> None:
        """Record the entries that the step has added to a mapping before a call on the host adds more."""
        adding = [holder_of(effect.target, effect.attribute) for effect in effects.effects if self._adds_entry(effect)]
        holders = {place_at(holder, None): holder for holder in adding if isinstance(holder, dict)}
        for here in holders.keys() - self._added_to:
            self._added_to.add(here)
            added = [each for each in changes if each.holder is holders[here] and each.before is ABSENT]
            self.calls.early += [(each.holder, each.key) for each in added]

    def _is_stand_in(self, change: Change) -> bool:
        """Return whether a place only seems to be changed: it holds the trace's stand-in for its old value."""
        if not isinstance(change.key, slice):
            return self.scope.stand_ins.get(place_at(change.holder, change.key), ABSENT) is change.now
        pairs = enumerate(zip(change.before, change.now))
        return len(change.before) == len(change.now) and all(
            now is before or self.scope.stand_ins.get(place_at(change.holder, place), ABSENT) is now
            for place, (before, now) in pairs
        )

    def _shows(self, read: Read) -> bool:
        """Return whether a call on the host finds the same value as in eager mode."""
        if isinstance(read.value, SymbolicScalar) or id(read.owner) in running_trace().schedules.hosted:
            return True
        if self.scope.entry is None:
            return False
        if read.kept_at is not None:  # a tuple does not change: the place that holds it does
            return isinstance(read.kept_at[0], tuple) or self.scope.entry.covers(*read.kept_at)
        return self.scope.entry.covers(read.get() if read.owner is None else read.owner)

    def _adds_entry(self, effect: Effect) -> bool:
        """Return whether a mapping gets a key that it did not have before the step."""
        holder = None if effect.target is None else holder_of(effect.target, effect.attribute)
        if holder is None or isinstance(holder, Slots):
            return False
        was = next(
            (held for each, held in self.in_program.stores if place_at(each, None) == place_at(holder, None)), holder
        )
        keys = effect.entries if effect.attribute is None else {effect.attribute}
        return not keys or any(key not in was for key in keys)

    def _count(self, effect: Effect) -> bool:
        """Return whether the step changes a number that is an input: hooks on the host see it as in eager mode."""
        holder, key = effect.target, effect.attribute
        if id(holder) in self.scope.groups:
            return True
        if not isinstance(holder, (dict, CellType)):
            holder = instance_dict(holder)
        if not self.plan.counts or (key is None) is not isinstance(holder, CellType):
            return False
        if place_at(holder, key) not in self.plan.counters:
            if type(held_at(holder, key)) not in (int, float):
                return False
            self.plan.counters[place_at(holder, key)] = (holder, key)
            raise Retrace
        return True

    def _remembers(self, effect: Effect) -> bool:
        """Return whether the step changes a place of the snapshot: calls on the host find it as in eager mode."""
        if self.scope.entry is None or effect.target is None:
            return False
        holders = (effect.target, instance_dict(effect.target))
        return any(self.scope.entry.covers(holder, effect.attribute) for holder in holders)

    def _options(self, effects: Effects) -> list[tuple[Any, Any]]:
        """Return the places of options that a hook reads, or that the step has changed in optimizers that it passes on."""
        groups = [each.owner for each in effects.places if id(each.owner) in self.scope.groups]
        passed_on = [group for each in _optimizers_in(effects) for group in each.param_groups]
        schedules = running_trace().schedules  # None in a backward pass that is a program of its own
        changed = [] if schedules is None else schedules.options.changed_by_now(passed_on)
        found = {place_at(*each): each for each in [*[(group, key) for group in groups for key in group], *changed]}
        numbers = (SymbolicScalar, *PLAIN)
        return [place for place in found.values() if all(isinstance(each, numbers) for each in leaves(held_at(*place)))]

    def _keep(self, hook: Any) -> None:
        """If it is a statement, keep it in the trace from now on, because other code of the step depends on it."""
        if isinstance(hook, Statement) and self.plan.splitter is not None:
            self.plan.splitter.keep(hook.probe)
            raise Retrace

    def _place(self, hook: Any, runs: str, why: str) -> Placed:
        is_statement = isinstance(hook, Statement)
        placed = (
            PlacedStatement(hook, runs, why) if is_statement else Placed(hook, runs, why, self.registrations.of(hook))
        )
        self.calls.placed.append(placed)
        return placed

    def _refusal(self, hook: Any, why: str) -> CompileError:
        return CompileError(f"undertow.compile: {self._place(hook, 'nowhere', why)} can't be compiled: {why}.")

    def _again(self, hook: Any) -> None:
        self.plan.on_host.add(self._identity(hook))
        raise Retrace

    def _must_be_hosted(self, hook: Any) -> bool:
        return not self.plan.on_host.isdisjoint((id(hook), self._identity(hook)))

    def _identity(self, hook: Any) -> Any:
        """Return a key for a hook that is the same in every trace; a hook that the step makes is a new object in each."""
        if id(hook) in running_trace().before.seen:
            return id(hook)
        return where_defined(hook) or (id(getattr(hook, "__self__", None)), getattr(hook, "__name__", ""))


def effect_place(effect: Effect) -> EffectPlace:
    return EffectPlace(effect.target, effect.attribute)


def _optimizers_in(effects: Effects) -> list[Optimizer]:
    """Return the optimizers that are passed to code that is not analyzed, or all if code is unknown."""
    if any(effect.field == "unknown" for effect in effects.effects):
        return running_trace().state.optimizers
    return [each for read in effects.holds if isinstance(each := read.get(), Optimizer)]


def _is_computed(value: Any) -> bool:
    if is_sparse(value):
        return any(map(_is_computed, parts_of_sparse(value)))
    return (
        isinstance(value, TensorCore)
        and type(value._array) is DeviceArray
        and not running_trace().memory.is_from_outside(value)
    )


def _parts(value: Any) -> list[Any]:
    """Return the leaves of nested containers, or the value itself."""
    if isinstance(value, (deque, set, frozenset)):
        return [part for each in value for part in _parts(each)]
    return [*leaves(value)]
