"""Hooks in a step that is compiled: where each one runs, decided before it runs for the first time.

A hook that only computes with tensors runs during the trace and so becomes part of the program. A hook that does something
else as well (prints, appends, counts) has to do it on every call, so it runs on the host with real values:

    after     it returns nothing and writes into no tensor, so nothing waits for it: it runs once the program has finished
    inside    the program needs what it does: it stops for the hook (an ordered callback) and goes on with the result

Hooks fire in the order in which they would fire eagerly. If one that runs inside comes behind one that was to run after
the program, or if hooks read what others change, the step is traced again with those hooks on the host.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, MutableMapping
from enum import Enum
from types import CellType
from typing import Any, NamedTuple

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.base import hooks
from undertow._src.base.hooks import RemovableHandle
from undertow._src.base.modes import local
from undertow._src.base.tree import leaves
from undertow._src.compile.callbacks.containers import is_used_up
from undertow._src.compile.callbacks.hook_facts import (
    acts_on_own,
    captured_by,
    changed_argument,
    effects_of,
    hooks_alike,
    hooks_on_leaves,
    is_own,
    is_watched,
    kind_of,
    kind_of_variable,
    kinds_of,
    takes_no_answer,
)
from undertow._src.compile.callbacks.hook_view import Kept, tensors_of
from undertow._src.compile.callbacks.host_calls import DeferredCallback, OrderedCallback, Placed
from undertow._src.compile.callbacks.host_schedule import HostSchedule
from undertow._src.compile.callbacks.registrations import Registrations
from undertow._src.compile.effects import Effect, Effects, analyse
from undertow._src.compile.effects.objects import entries_of
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import PLAIN, contents_of, holder_of, same
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.splitting.code_rewriting import RETURNED
from undertow._src.compile.splitting.host_statements import (
    AsItIs,
    Environment,
    PlacedStatement,
    Returned,
    Statement,
    hidden,
)
from undertow._src.compile.splitting.statement_probes import StatementProbe
from undertow._src.compile.tracing.results import objects_in
from undertow._src.compile.tracing.running import running_trace
from undertow._src.compile.tracing.symbolic_scalars import ScalarBecameConstant, SymbolicScalar
from undertow._src.tensor.core import TensorCore
from undertow.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

_HOOKS = "Which hooks there are is part of the program: register them before the step"


class HookCall(NamedTuple):
    """A hook whose turn has come: what it is given, and what its code is known to do."""

    hook: Any
    args: tuple[Any, ...]
    effects: Effects
    number: int


class HookPlacer(HostSchedule):
    """Decides when the hooks of a traced step are called, and where: see `hooks.fire`."""

    witness: Callable[..., None] | None = None  # told of every hook and what it is given, when the program has run

    def __init__(self, plan: Plan, registrations: Registrations, known: Container[int] | None = None) -> None:
        super().__init__(plan, registrations, known)
        self.thread = threading.get_ident()
        self.packs: dict[int, Any] = {}  # pack hooks that fired, by the id of the unpack hook beside them
        self.environment = Environment()
        self._met: set[Any] = set()  # hooks in parts that had their turn
        self._old: dict[int, Any] = {}  # what hooks change and the step has not made: to find that out takes a while
        self._taken_out: list[RemovableHandle] = []  # handles that hooks on the host remove

    def call_hook(self, hook: Any, args: tuple[Any, ...]) -> Any:
        """Run a hook in the program if it only computes, else have it run on the host."""
        unpacks = len(args) == 1 and type(args[0]) is Kept  # what a hook on the host has packed
        if (is_own(hook) and not unpacks) or threading.get_ident() != self.thread:
            return hooks.fire(hook, *args, decided=True)  # undertow's own bookkeeping is made of tensor work
        number = self.fired = self.fired + 1
        subject = getattr(hook, "hook", hook) if is_watched(hook) else hook
        kinds = kinds_of(args)
        effects = effects_of(subject, args, running_trace().is_own)
        for effect in effects.effects:
            if effect.what.startswith("registers a hook on a tensor from outside"):
                raise self._refusal(hook, f"it {effect}. {_HOOKS}")
        if any((handle.hooks_dict_ref() or {}).get(handle.id) is hook for handle in self._taken_out):
            raise self._refusal(hook, "a hook on the host takes it out, and its turn comes again in the same step")
        self._find_state(effects)
        if HookPlacer.witness is not None:
            self.calls.turns.append(DeferredCallback(_told, (hook, *args), []))
        self._is_pack(hook)
        part = None if self.plan.splitter is None else self.plan.splitter.rest_of_hook((hook, *kinds))
        if part is not None:
            return self._in_parts(HookCall(hook, args, part[1], number), part[0])
        lasting = [effect for effect in effects.effects if id(effect.target) not in self.scope.groups]
        holders = [holder for holder in map(_holder, lasting) if holder is not None]
        always = (
            not holders or running_trace().choice is None
        )  # what is stored on some calls only is stored on the host
        may_be = all(self._may_be_traced(effect, hook) for effect in lasting)
        if always and may_be and not self._must_be_hosted(hook) and not unpacks:
            return self._traced(HookCall(hook, args, effects, number), holders)
        why = "another hook reads what it stores, or changes what it reads"
        if unpacks or hook in self.packs.values():
            why = "it unpacks what was packed on the host" if unpacks else "its unpack hook runs on the host"
        others = [effect for effect in effects.effects if not acts_on_own(effect)]
        if others:
            why = f"it {others[0].what}" + (f" (line {others[0].line})" if others[0].line else "")
        return self._hosted(HookCall(hook, args, effects, number), why)

    def _may_be_traced(self, effect: Effect, hook: Any) -> bool:
        return acts_on_own(effect) or _holder(effect) is not None or self._is_for_step(effect, hook)

    def _is_for_step(self, effect: Effect, hook: Any) -> bool:
        """Whether a hook changes a container, or a variable, that the step itself makes, reads or changes."""
        target, splitter = effect.target, self.plan.splitter
        if splitter is None or self.scope.known is None or not isinstance(target, (list, dict, set, deque, CellType)):
            return False
        if self._is_new(target, hook):
            return True
        uses = effect.feeds(splitter.rest.places) or any(other.target is target for other in splitter.rest.effects)
        return uses and id(target) in self.scope.known

    def _is_new(self, target: Any, hook: Any) -> bool:
        """Whether the step has made a container or a variable that a hook changes."""
        if not isinstance(target, (list, dict, set, deque, CellType)) or id(target) in self._old:
            return False
        if running_trace().is_new(target, hook):
            return True
        self._old[id(target)] = target
        return False

    def _traced(self, hook_call: HookCall, holders: list[MutableMapping[Any, Any]]) -> Any:
        """Run the hook now. At most it stores something, which comes out the same on every call."""
        inputs_before = len(running_trace().host_inputs)
        try:
            return self._run(hook_call, holders, "it only computes with tensors")
        except NeedsValue as error:
            self.fired = hook_call.number  # on the host nothing fires inside it
            undecided = error.line is not None and error.line not in self.plan.decided
            if not (undecided and self.plan.decides_in_hooks):
                try:
                    answer = self._hosted(hook_call, f"it needs a value: {error.asked or error}")
                except CompileError:
                    if not undecided:
                        raise
                else:
                    if hook_call.effects.draws or len(running_trace().host_inputs) > inputs_before:
                        self._again(hook_call.hook)  # else the host would draw again what this trace drew
                    return answer
            assert error.line is not None
            self.plan.decided.add(error.line)
            raise Retrace from None

    def _run(self, hook_call: HookCall, holders: list[MutableMapping[Any, Any]], why: str) -> Any:
        hook, args, effects, _ = hook_call
        before = [(array, array.value) for array in _arrays(args, effects)]
        self.in_program.stores += [(holder, entries_of(holder)) for holder in holders]
        self.in_program.stored += [
            (holder, effect) for effect in effects.effects if (holder := _holder(effect)) is not None
        ]
        stopped: list[BaseException] = running_trace().stopped
        earlier = len(stopped)
        hangs = any("register" in effect.what for effect in effects.effects)
        on_leaves = hooks_on_leaves(running_trace().state.tensors) if hangs else []
        try:
            answer = hooks.fire(hook, *args, decided=True)
            if stopped[earlier:]:  # and the hook itself handled it
                raise stopped[earlier]
            if hangs and hooks_on_leaves(running_trace().state.tensors) != on_leaves:
                raise self._refusal(hook, f"it registers a hook on a tensor from outside. {_HOOKS}")
        except NeedsValue:
            del stopped[earlier:]
            for array, value in before:
                array.write(value)
            raise
        self.in_program.reads += [  # a tensor of this trace is one that each call leaves there before the hook reads it
            read
            for read in (*effects.reads, *effects.holds)
            if not (isinstance(read.value, SymbolicScalar) or self._is_renewed(read.value))
        ]
        self.in_program.traced.append((hook, effects))
        if effects.effects:
            self.in_program.seen_by_keepers.update(array.buffer for array in _arrays_of((args, answer)))
        self._place(hook, "in the program", why)
        return answer

    def _may_come_apart(self, hook_call: HookCall) -> bool:
        """Whether a hook that the program would wait for, or that nothing can be made of, is to be taken apart."""
        hook, args, effects, _ = hook_call
        others = [effect for effect in effects.effects if not acts_on_own(effect)]
        comes_after = effects.returns is False and not effects.writes and len(others) == len(effects.effects)
        if self.plan.splitter is None or not others or comes_after or self._is_pack(hook) or id(hook) in self.packs:
            return False
        if any(
            effect.field == "unknown" or isinstance(effect.target, (RemovableHandle, LRScheduler)) for effect in others
        ):
            return False
        given = objects_in([each for each in leaves(args) if kind_of(each) == "other"], ())
        # The analysis of single statements does not know what is in the hook's arguments.
        if any(id(effect.target) in given for effect in effects.effects):
            return False
        call = hook, *kinds_of(args)
        return self.plan.splitter.split_hook(call, self._met, [*hooks_alike(running_trace().state, call)])

    def _in_parts(self, hook_call: HookCall, key: Any) -> Any:
        """Run the hook now, of which some statements are moved to the host."""
        hook, effects, splitter = hook_call.hook, hook_call.effects, self.plan.splitter
        assert splitter is not None
        holders = [holder for holder in map(_holder, effects.effects) if holder is not None]
        stopped: list[BaseException] = running_trace().stopped
        earlier = len(stopped)
        try:
            if self._must_be_hosted(hook) or not all(self._may_be_traced(effect, hook) for effect in effects.effects):
                raise CompileError
            answer = self._run(hook_call, holders, "what it does besides runs on the host")
        except (NeedsValue, CompileError) as error:
            del stopped[earlier:]
            if not (isinstance(error, NeedsValue) and splitter.move_what_needed(error)):
                splitter.keep_hook_whole(hook)
            raise Retrace from None
        self._met.add(key)
        return answer

    def _hosted(self, hook_call: HookCall, why: str) -> Any:
        """Run the hook on the host, after the program if nothing waits for it."""
        hook, args, effects, _ = hook_call
        splitter = self.plan.splitter
        captured = [each for each in captured_by(hook) if isinstance(each, SymbolicScalar)]
        if captured:  # the step made the hook, for this turn
            raise captured[0].refusal() if captured[0].is_asked else ScalarBecameConstant
        if self._may_come_apart(hook_call):
            raise Retrace
        for effect in filter(acts_on_own, effects.effects):
            why = f"it {effect}, on which the program depends, and it has to run on the host, because {why}"
            raise self._refusal(hook, f"{why}. Let a hook of its own do that")
        for effect in effects.effects:
            if (
                self._is_new(effect.target, hook)
                and splitter is not None
                and splitter.reading.reads_variable(hook, effect.target)
            ):
                why = f"it {effect}, which the step itself has made, and it has to run on the host, because {why}"
                raise self._refusal(hook, f"{why}. Make that before the step, or let a hook of its own fill it")
        self._find_variables(hook_call, why)
        for other, its in self.in_program.traced:  # in this step it would read what they only leave at the end
            if its.effects and (its.feeds(effects) or self._contend(its, effects)):
                self._again(other)
        if effects.draws:  # draws that follow are to be made after its own
            if not self.plan.all_inside:
                self.plan.all_inside, self.plan.waits_for = True, self._place(hook, "", "").name
                raise Retrace
            running_trace().host_inputs.inside = self.calls.has_inside = True
        self.hosted.append((hook, effects))
        self._taken_out += [effect.target for effect in effects.effects if isinstance(effect.target, RemovableHandle)]
        found, places = self._found(hook, effects)
        if effects.returns is False and not effects.writes and not self.plan.all_inside:
            placed = self._place(hook, "after the program", why)
            self._put_off(self._noted(effects, DeferredCallback(hook, args, found, placed, places), hook_call.number))
            return None
        if self.calls.later and (effects.effects or self._must_be_hosted(hook)):
            self.plan.all_inside, self.plan.waits_for = True, self._place(hook, "", "").name
            raise Retrace
        if effects.effects:
            if effects.returns is not False:
                why += ", and may give the program something"
            elif effects.writes:
                why += ", and writes into tensors"
            elif self.plan.waits_for:
                why += f", and has its turn before `{self.plan.waits_for}`, which the program waits for"
        return self._inside(hook_call, found, places, why)

    def _find_variables(self, hook_call: HookCall, why: str) -> None:
        """Note variables that the step makes and a hook on the host updates: each call begins with new ones."""
        for effect in hook_call.effects.effects:
            cell = effect.target
            if effect.kind == "update" and isinstance(cell, CellType) and self._is_new(cell, hook_call.hook):
                value = contents_of(cell)
                if not isinstance(value, PLAIN) or not same(
                    self.variables.setdefault(id(cell), (cell, value))[1], value
                ):
                    why = (
                        f"it {effect}, which the step makes at every call, and it has to run on the host, because {why}"
                    )
                    raise self._refusal(
                        hook_call.hook, f"{why}. Make that before the step, or let a hook of its own change it"
                    )

    def _inside(self, hook_call: HookCall, found: list[Any], places: list[Any], why: str) -> Any:
        """Stop the program for the hook, and go on with what it returns."""
        hook, args, effects, _ = hook_call
        packs = self._is_pack(hook) and type(args[0]) is not Kept
        unpacks = id(hook) in self.packs
        if unpacks and not packs and type(args[0]) is not Kept:  # it gets what the pack hook gives, from the host
            self._again(self.packs[id(hook)])
        changed = changed_argument(hook, args) if effects.returns is not False or effects.writes else None
        if effects.returns is not False and changed is None:
            raise self._refusal(hook, f"{why}, and undertow can't tell what its result would change")
        flows = (
            changed is not None
            and local.modes.grad_enabled
            and any(each._requires_grad for each in leaves(args[changed]) if isinstance(each, TensorCore))
        )
        if flows and effects.returns is not False:
            raise self._refusal(
                hook,
                f"{why}, so it has to run on the host, where gradients can't flow through what it returns. "
                "Let one hook compute, and another one do the rest",
            )
        placed = self._place(hook, "inside the program, on the host", why)
        call = self._noted(effects, OrderedCallback(hook, args, found, placed, places), hook_call.number)
        self.calls.has_inside = True
        self._waited_for.append((hook, effects))
        if packs:
            return call.keep(args[0]._array, self.calls.raised)
        if unpacks:
            return call.give(args[0], self.calls.raised)
        answer = call.place(changed if effects.returns is not False else None, effects.writes, self.calls.raised, flows)
        return None if takes_no_answer(args) else answer

    def meets(self, probe: StatementProbe, variables: dict[str, Any]) -> bool:
        """Whether a statement that has its turn now is to be traced; else it is noted to be run on the host."""
        splitter = self.plan.splitter
        assert splitter is not None
        if probe.refusal:
            changed = probe.changed(variables) if probe.changes_unknown else None
            if changed is not None and all(map(self._may_change, changed)):
                return True
            raise CompileError(probe.refusal)
        if probe.warning:
            splitter.warn(probe)
            return True
        number = self.fired = self.fired + 1
        known = {name: self._variable(variables[name]) for name in probe.used if name in variables}
        given = tuple(sorted({*known, *(self.environment.of(probe)[0] & set(probe.used))}))
        function = probe.alone(given)
        effects = analyse(function, [kind_of_variable(known[name]) if name in known else "plain" for name in given])
        self._find_state(effects)
        inside_objects = [*hidden(known, self.scope.known or ())]
        if probe.returns and not any(map(is_used_up, inside_objects)):
            return self._returns(Statement(probe, function, given, self.environment), effects, variables)
        feeding = [effect for effect in splitter.rest.effects if effect.feeds(effects.places)]
        if any(isinstance(each, SymbolicScalar) and not each.is_asked for each in inside_objects):
            raise ScalarBecameConstant
        shown = [self._count(effect) or self._remembers(effect) for effect in feeding]
        if not all(shown) or inside_objects or probe.opens_saved:
            splitter.keep(probe)
            raise Retrace
        for other, its in self.in_program.traced:
            if its.effects and (its.feeds(effects) or self._contend(its, effects)):
                self._again(other)
        statement = Statement(probe, function, given, self.environment)
        self.hosted.append((statement, effects))
        found, places = self._found(statement, effects)
        inside, why = self.plan.all_inside, probe.why
        if inside and self.plan.waits_for:
            why += f", and has its turn in a step that waits for `{self.plan.waits_for}`"
        begins = not inside and self._begins(effects, known)
        runs = "inside the program, on the host" if inside else "before the program" if begins else "after the program"
        placed = PlacedStatement(statement, runs, why)
        self.calls.placed.append(placed)
        if inside:
            self.calls.has_inside = True
            self._waited_for.append((statement, effects))
            call = self._noted(effects, OrderedCallback(statement, (known,), found, placed, places), number)
            call.place(None, False, self.calls.raised)
            return False
        later = self._noted(effects, DeferredCallback(statement, (known,), found, placed, places), number)
        later.may_write, later.begins = effects.writes, begins
        self._put_off(later)
        _leave_schedulers(effects, placed)
        return False

    def _begins(self, effects: Effects, variables: dict[str, Any]) -> bool:
        """Whether a statement is the first on the host and reads a clock: the time at which the step begins."""
        if self.calls.turns or self.calls.begins or not any(effect.field == "clock" for effect in effects.effects):
            return False
        return not any(isinstance(leaf, (TensorCore, SymbolicScalar)) for leaf in leaves([*variables.values()]))

    def _may_change(self, value: Any) -> bool:
        """Whether a statement that changes an object may run in the trace: eager code makes it anew in each call."""
        return isinstance(value, (TensorCore, frozenset, tuple, Enum, *PLAIN)) or running_trace().is_own(value)

    def _returns(self, statement: Statement, effects: Effects, variables: dict[str, Any]) -> bool:
        """Note the statement that gives the result: it runs at the very end, and finds all as the step leaves it."""
        if effects.effects:
            self.hosted.append((statement, effects))
        placed = PlacedStatement(statement, "after the program", statement.probe.why)
        self.calls.placed.append(placed)
        _leave_schedulers(effects, placed)
        self.calls.returned = Returned(
            statement, {name: variables[name] for name in statement.probe.used if name in variables}
        )
        return False

    def result_for(self, returned: Any) -> Any:
        """Return the program's results, for what the traced step returned."""
        if self.calls.returned is None or returned is RETURNED:
            return returned if self.calls.returned is None else self.calls.returned.variables
        self.calls.turns += self.calls.returned.behind  # `finally` returned something else
        self.calls.returned = None
        return returned

    def _variable(self, value: Any) -> Any:
        """Return a variable of a statement: tensors are shown as they are at its turn, objects from outside used
        as they are.
        """
        return (
            value
            if isinstance(value, (TensorCore, SymbolicScalar, *PLAIN)) or running_trace().is_own(value)
            else AsItIs(value)
        )

    def _is_pack(self, hook: Any) -> bool:
        """Whether a hook is to pack a tensor that is being saved."""
        saving = local.modes.saved_hooks
        if not saving or saving[-1][0] is not hook:
            return False
        self.packs[id(saving[-1][1])] = hook
        return True


def _leave_schedulers(effects: Effects, placed: Placed) -> None:
    for effect in effects.effects:
        if isinstance(effect.target, ReduceLROnPlateau):
            running_trace().schedules.leave_to_host(effect.target, str(placed))


def _told(hook: Any, *args: Any) -> None:
    if HookPlacer.witness is not None:
        HookPlacer.witness(hook, *args)


def _arrays(given: Any, effects: Effects) -> list[DeviceArray]:
    """Return the memories that a hook may write into before it turns out that it can't be traced."""
    if not effects.writes:
        return []
    return _arrays_of([given, *[tensor for read in effects.holds for tensor in tensors_of(read.get())]])


def _arrays_of(tree: Any) -> list[DeviceArray]:
    """Those of tensors and of their gradients."""
    tensors = [each for each in leaves(tree) if isinstance(each, TensorCore) and each._is_strided]
    tensors += [each._meta.grad for each in tensors if each._meta is not None and each._meta.grad is not None]
    return [tensor._array for tensor in tensors if type(tensor._array) is DeviceArray]


def _holder(effect: Effect) -> MutableMapping[Any, Any] | None:
    """Return the mapping that a store changes, if it is one that gives the same on every call or is watched anyway."""
    if effect.target is None or (effect.kind != "store" and not acts_on_own(effect)):
        return None
    return holder_of(effect.target, effect.attribute)
