"""The schedule of calls on the host: hooks and statements, in order, and the state that they and the step may not share.

The step's Python code runs once, in the trace; what is on the host runs in each call. So a hook there may not read what
the step changes after it, and the step may not read what the hook changes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.base.hooks import RemovableHandle
from undertow._src.base.sites import Site
from undertow._src.compile.callbacks.host_call_state import HostState, effect_place
from undertow._src.compile.callbacks.host_calls import DeferredCallback, HostCall, OrderedCallback
from undertow._src.compile.callbacks.kept_memory import has_aliases
from undertow._src.compile.callbacks.registrations import Removals
from undertow._src.compile.effects import Effect, Effects, purity
from undertow._src.compile.effects.effect_log import MAY_ADD
from undertow._src.compile.effects.models.unfollowed import NO_SOURCE
from undertow._src.compile.errors import CompileError, RunsAsWritten
from undertow._src.compile.guards.places import (
    Place,
    Places,
    places_of,
)
from undertow._src.compile.plan import Retrace
from undertow._src.compile.splitting.host_statements import Statement
from undertow._src.compile.tracing.current_trace import running_trace
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer

_Call = TypeVar("_Call", bound=HostCall)
_APART = (
    "Give the hook an object of its own (another list), or do this in the step itself, after backward(), or outside of the "
    "step, with what it returns"
)


class HostSchedule(HostState):
    """The calls on the host that a trace has recorded, in order."""

    def finish(self) -> None:
        """Check after the trace that no traced hook depends on what hooks on the host change."""
        self.finds.note(self._calls)
        self._show_changes()
        for later in self.calls.later:
            self._find_shown(later)
            later.finish()
        self.mirrors.finish()
        self._calls.clear()
        for call in self.calls.host_calls:
            call.draws_follow = call.draws_before < len(running_trace().host_inputs)
        for hook, effects in self.in_program.traced:
            if any(its.feeds(effects) or self._contend(effects, its) for _, its in self.hosted):
                self._again(hook)

    def _find_shown(self, later: DeferredCallback) -> None:
        """Record the memories that a call after the program reads: the program may not write over them."""
        for state in later.view.own():
            tensor = state.mirror.kept
            if tensor._requires_grad or state.grad is not None or type(tensor._array) is not DeviceArray:
                later.is_certain = False  # everything has to stay as it was
            else:
                self.calls.shown.add(id(tensor._array.buffer))

    def _contend(self, traced: Effects, hosted: Effects) -> bool:
        """Return whether both calls change one place or add entries to one mapping: then both have to run on the host."""
        return any(
            one.target is other.target and (one.meets(other) or (self._adds_entry(one) and self._adds_entry(other)))
            for one in traced.effects
            for other in hosted.effects
            if one.target is not None
        )

    def _show_changes(self) -> None:
        """Update the objects that hooks on the host may have kept."""
        if self.calls.later:  # else only calls inside have seen them
            self.mirrors.calls_of(inside=False)
        if self.mirrors.is_up_to_date():
            return
        if self.plan.all_inside:
            OrderedCallback(_nothing, (), []).place(None, False, self.calls.raised)
        else:
            last = DeferredCallback(_nothing, (), [])
            last.is_certain = True
            self.calls.later.append(last)
            self.calls.turns.append(last)

    def note_gradient(self, shown: Any, gradient: Any) -> None:
        """Record that a leaf's gradient takes over the buffer of a tensor that hooks may have seen."""
        self.aliases.note_gradient(gradient._array.buffer)
        if self.mirrors.is_stale(shown):
            self._show_changes()  # they may keep it in its current state
        self.mirrors.take(shown, gradient, self.keeps_alias(gradient, [shown]))

    def keeps_alias(self, tensor: Any, known: Sequence[Any]) -> bool:
        """Return whether a traced hook keeps an alias of a tensor that it has seen, besides the known ones."""
        return tensor._array.buffer in self.aliases.keepers and has_aliases(tensor, known)

    def note_write(self, buffer: Buffer) -> None:
        """Record a write of the step to a buffer."""
        hook = self.aliases.note_write(buffer)
        if hook is not None:
            self._again(hook)

    def settle_aliases(self, outputs: Sequence[Buffer]) -> None:
        """Move hooks to the host, inside the program, if they share memory in some calls only: see `possible_aliases`."""
        calls = self.calls.host_calls
        for hook in self.aliases.hooks_for_host(outputs, calls):
            self._again(hook)
        waited_for = None if self.plan.all_inside else self.aliases.waits(outputs, calls, self.calls.later)
        if waited_for is not None:
            self.plan.all_inside, self.plan.waits_for = True, waited_for.placed.name
            raise Retrace

    def _noted(self, effects: Effects, call: _Call, number: int) -> _Call:
        """Record a call on the host. Later ones may read tensors that it keeps, and have to see their current values."""
        if call.is_inside and any(isinstance(each, threading.local) for each in effects.touches):
            raise CompileError(
                f"undertow.compile: {call.placed} reads or changes a threading.local, and runs inside the program, which "
                "calls it in a thread of XLA's. Use a contextvars.ContextVar instead, or let one hook compute, and "
                "another one do the rest."
            )
        self._calls.append((effects, call))
        self.calls.host_calls.append(call)
        call.order, call.draws_before = number, len(running_trace().host_inputs)
        own = [self.variables.get(id(effect.target)) for effect in effects.effects]
        call.variables = [each for each in own if each is not None]
        handles = [effect.target for effect in effects.effects if isinstance(effect.target, RemovableHandle)]
        if handles:
            call.removals = Removals(handles)
        return call

    def refuse_calls_before(self, site: Site | None) -> None:
        """Refuse hooks that the program waits for before a data-dependent branch: a wrong guess would run them twice.

        Without a site, a guess of another rank would: all ranks repeat a call together.
        """
        for hook, effects in self._waited_for:
            if not effects.effects and not self.plan.decides_in_hooks:  # it only needs values, as the step does
                self.plan.decides_in_hooks, self.plan.all_inside, self.plan.waits_for = True, False, ""
                raise Retrace
            after = "after a collective" if site is None else f"at {site}, after it,"
            raise self._refusal(
                hook,
                f"the program waits for it, and {after} the step decides about a value: should the decision go the other "
                "way, it would run twice. Let the step decide before the hook fires, or let one hook compute and another "
                "one do the rest",
            )

    def _put_off(self, later: DeferredCallback) -> None:
        self.calls.later.append(later)
        if later.begins:
            self.calls.begins.append(later)
            return
        (self.calls.turns if self.calls.returned is None else self.calls.returned.behind).append(later)

    def refuse_other_turns(self, of_step: Effects) -> None:
        """Refuse hooks on the host that the step's own code depends on, or that depend on it: their order is lost."""
        of_hooks = {(effect.file, effect.line) for _, effects in self.hosted for effect in effects.effects}
        # It may define hooks.
        own = [effect for effect in of_step.effects if (effect.file, effect.line) not in of_hooks]
        used = (*of_step.places, *map(effect_place, own))
        self._refuse_draws()
        self._refuse_objects_of_others()
        for hook, effect, its_own in self.changed.found_by(self.plan.splitter):
            if its_own:
                self._keep(hook)
            raise self._refusal(
                hook,
                f"it runs on the host, where it {effect}, which the step itself has made and reads. Let the hook only keep "
                "tensors, and use their values in the step",
            )
        for hook, effects in self.hosted:
            for read in effects.reads:
                if not self._shows(read) and read.changed():
                    self._keep(hook)
                    raise self._refusal(
                        hook, f"it runs on the host and reads `{read.name}`, which the step changes after it. {_APART}"
                    )
            for effect in effects.effects:
                if id(effect.target) in self.scope.groups:
                    self._keep(hook)
                    raise self._refusal(
                        hook,
                        f"it {effect}, on which the program depends. Set optimizer options in the step itself, "
                        "before optimizer.step(), where they may depend on values (`p.grad.norm().item()`)",
                    )
                if id(effect.target) in self.scope.states and not effect.what.startswith(MAY_ADD):
                    self._keep(hook)
                    raise self._refusal(
                        hook,
                        f"it {effect}, on which the program depends. Change the state in the step, or outside of it",
                    )
                if not isinstance(hook, Statement) and effect.what.endswith(NO_SOURCE):
                    continue  # it is unknown whether the hook changes what it finds
                if effect.target is not None and any(map(effect_place(effect).overlaps, used)):
                    self._keep(hook)
                    raise self._refusal(
                        hook, f"it runs on the host, where it {effect}, and the step itself uses that. {_APART}"
                    )

    def _refuse_objects_of_others(self) -> None:
        """Refuse a hook on the host that changes an object of the step, if other calls there read it: each has its copy."""
        trace = running_trace()
        for hook, effects in self.hosted:
            for effect in effects.effects:
                if effect.attribute is None or purity.origin_of(type(effect.target)) != "user":
                    continue
                if isinstance(effect.target, (Module, Optimizer, type)) or not trace.is_of_step(effect.target):
                    continue
                others = [its for other, its in self.hosted if self._identity(other) != self._identity(hook)]
                if any(effect.feeds(its.places) for its in others):
                    raise self._refusal(
                        hook,
                        f"it runs on the host, where it {effect}, an object that the step makes, and another hook or "
                        "statement on the host reads that. Let one hook do both, or keep the object outside of the step",
                    )

    def _refuse_draws(self) -> None:
        """Refuse calls on the host that draw from generators of Python and NumPy, if the step does, too."""
        schedules, splitter = running_trace().schedules, self.plan.splitter
        if schedules is None or splitter is None or not splitter.draws:
            return
        schedules.generators.end_trace()
        for hook, effects in self.hosted:
            for effect in effects.effects:
                if effect.field == "random":
                    self._keep(hook)
                    raise self._refusal(
                        hook,
                        f"it runs on the host, where it {effect}, and the step itself draws random numbers. {_APART}",
                    )

    def refuse_shared(self, left: Iterable[tuple[Any, Any, Any]]) -> None:
        """Refuse a hook on the host if the step itself changes the same objects: the order would be lost."""
        stored = Places([effect_place(effect) for _, effects in self.in_program.traced for effect in effects.effects])
        of_step = [(holder, key) for holder, key, _ in left if not stored.meet(holder, key)]
        for hook, effects in self.hosted:
            for effect in effects.effects:
                changed = Places([effect_place(effect)])
                if any(changed.meet(*place) for place in of_step):
                    if id(effect.target) in self.scope.states:
                        raise RunsAsWritten("a hook reads the state of an optimizer, which begins with this step")
                    self._keep(hook)
                    raise self._refusal(
                        hook, f"it runs on the host, where it {effect}, and the step itself changes that. {_APART}"
                    )

    def changes_on_host(self, holder: Any, key: Any) -> bool:
        """Return whether a hook or a statement on the host changes a place."""
        effects = [effect for _, effects in self.hosted for effect in effects.effects if effect.target is not None]
        return Places([*map(effect_place, effects)]).meet(holder, key)

    def changed_on_host(self) -> set[Place]:
        """Return the places that hooks and statements on the host change, on which no program depends."""
        effects = [effect for _, effects in self.hosted for effect in effects.effects]
        if self.plan.splitter is not None:  # statements that this trace does not reach
            read = [place for _, its in self.in_program.traced for place in its.places]
            own = self.plan.splitter.rest.effects
            effects += [
                effect
                for effect in self.plan.splitter.moved_effects()
                if not effect.feeds(tuple(read)) and not any(effect.meets(other) for other in own)
            ]
        return {each for effect in effects for each in _places(effect)}


def _places(effect: Effect) -> set[Place]:
    return set() if effect.target is None else places_of(effect.target, effect.attribute)


def _nothing() -> None:
    """Do nothing. As the last call on the host, it brings mirrors that hooks have kept to their final values."""
