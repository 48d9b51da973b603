"""Where each hook of a compiled step runs, decided before it runs for the first time.

A hook that only computes with tensors runs during the trace, and so becomes part of the program. A hook that also does
something else (prints, appends, counts) has to do so on every call, so it runs on the host, with real values:

    after     it returns nothing and writes into no tensor, so nothing waits for it: it runs after the program
    inside    the program needs its result or its writes, and waits for it (an ordered callback)

Hooks fire in eager mode's order. If a hook inside the program fires after one that was to run after the program, or if
hooks read what others change, the step is traced again with those hooks on the host.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, MutableMapping
from types import CellType
from typing import Any, NamedTuple

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import NeedsValue, TraceAborted
from undertow._src.base import hooks
from undertow._src.base.hooks import RemovableHandle
from undertow._src.base.modes import local
from undertow._src.base.tree import leaves
from undertow._src.compile.callbacks.hook_branches import HookBranches, TooManyWays
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
    kinds_of,
    takes_no_answer,
)
from undertow._src.compile.callbacks.hook_view import Kept, tensors_of
from undertow._src.compile.callbacks.host_calls import DeferredCallback, OrderedCallback
from undertow._src.compile.callbacks.registrations import Registrations
from undertow._src.compile.callbacks.statement_placement import StatementPlacer
from undertow._src.compile.effects import Effect, Effects, Read, purity
from undertow._src.compile.effects.objects import entries_of
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.hook_reads_guard import of_holder
from undertow._src.compile.guards.places import PLAIN, changes_in, contents_of, holder_of, put, same
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.results import objects_in
from undertow._src.compile.tracing.symbolic_scalars import ScalarBecameConstant, SymbolicScalar
from undertow._src.compile.tracing.unread_calls import key_of
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module
from undertow.optim.lr_scheduler import LRScheduler
from undertow.optim.optimizer import Optimizer

_BATCHED = (
    "and is called in a backward pass for many gradients at once (is_grads_batched, jacrev), with all as one tensor. "
    "Such a hook can only compute: let it do the rest outside of the step, or take the gradients one by one"
)
_HOOKS = "The hooks that exist are part of the program: register them before the step"


class HookCall(NamedTuple):
    """A hook that fires: its arguments, and the known effects of its code."""

    hook: Any
    args: tuple[Any, ...]
    effects: Effects
    number: int


class HookPlacer(StatementPlacer):
    """Decide when and where the hooks of a traced step are called: see `hooks.fire`."""

    witness: Callable[..., None] | None = (
        None  # a function that is called with every hook and its arguments, after the program
    )

    def __init__(self, plan: Plan, registrations: Registrations, known: Container[int] | None = None) -> None:
        super().__init__(plan, registrations, known)
        self.thread = threading.get_ident()
        self.packs: dict[int, Any] = {}  # pack hooks that fired, by the id of the unpack hook beside them
        self._met: set[Any] = set()  # split hooks that have fired
        self._old: dict[int, Any] = {}  # what hooks change and the step does not: a slow test
        self._taken_out: list[RemovableHandle] = []  # handles whose hooks are removed on the host

    def call_hook(self, hook: Any, args: tuple[Any, ...]) -> Any:
        """Run a hook in the program if it only computes; else place it on the host."""
        unpacks = len(args) == 1 and type(args[0]) is Kept  # what a hook on the host has packed
        if (is_own(hook) and not unpacks) or threading.get_ident() != self.thread:
            return hooks.fire(hook, *args, decided=True)  # undertow's own hooks only compute
        number = self.fired = self.fired + 1
        subject = getattr(hook, "hook", hook) if is_watched(hook) else hook
        kinds = kinds_of(args)
        effects = effects_of(subject, args, running_trace().is_own)
        self.plan.read |= {key_of(function.__code__) for function in effects.functions}
        for effect in effects.effects:
            if effect.what.startswith("registers a hook on a tensor from outside"):
                raise self._refusal(hook, f"it {effect}. {_HOOKS}")
        if any((handle.hooks_dict_ref() or {}).get(handle.id) is hook for handle in self._taken_out):
            raise self._refusal(
                hook,
                "a hook on the host removes it, and it fires again in the same step. Remove it in a hook that does nothing "
                "else, or outside of the step",
            )
        if _is_batched(args) and not all(map(acts_on_own, effects.effects)):
            raise self._refusal(hook, f"it {effects.effects[0].what}, {_BATCHED}")
        self._find_state(effects)
        if HookPlacer.witness is not None:
            self.calls.turns.append(DeferredCallback(_told, (hook, *args), []))
        self._is_pack(hook)
        part = None if self.plan.splitter is None else self.plan.splitter.rest_of_hook((hook, *kinds))
        if part is not None:
            return self._in_parts(HookCall(hook, args, part[1], number), part[0])
        lasting = [effect for effect in effects.effects if id(effect.target) not in self.scope.groups]
        stores = [effect for effect in lasting if not self._is_on_own(effect, hook)]
        holders = [holder for holder in map(_holder, stores) if holder is not None]
        always = not holders or running_trace().choice is None  # what only some calls store is stored on the host
        may_be = all(self._may_be_traced(effect, hook) for effect in lasting)
        if always and may_be and not self._must_be_hosted(hook) and not unpacks:
            return self._traced(HookCall(hook, args, effects, number), holders)
        why = "another hook reads what it stores, or changes what it reads"
        if unpacks or hook in self.packs.values():
            why = "it unpacks what a hook on the host packed" if unpacks else "its unpack hook runs on the host"
        others = [effect for effect in effects.effects if not acts_on_own(effect)]
        if others:
            why = f"it {others[0].what}" + (f" (line {others[0].line})" if others[0].line else "")
        return self._hosted(HookCall(hook, args, effects, number), why)

    def _may_be_traced(self, effect: Effect, hook: Any) -> bool:
        return acts_on_own(effect) or _holder(effect) is not None or self._is_for_step(effect, hook)

    def _is_for_step(self, effect: Effect, hook: Any) -> bool:
        """Return whether a hook changes a container, or a variable, that the step itself makes, reads or changes; or an
        attribute of an object that it makes."""
        target, splitter = effect.target, self.plan.splitter
        if splitter is None or self.scope.known is None:
            return False
        if self._is_on_made_object(effect, hook):
            return True
        if not isinstance(target, (list, dict, set, deque, CellType)):
            return False
        if self._is_new(target, hook):
            return True
        rest = splitter.rest_of_step
        uses = effect.feeds(rest.places) or any(other.target is target for other in rest.effects)
        return uses and id(target) in self.scope.known

    def _is_new(self, target: Any, hook: Any) -> bool:
        """Return whether the step has made a container or a variable that a hook changes."""
        return isinstance(target, (list, dict, set, deque, CellType)) and self._is_made(target, hook)

    def _is_on_own(self, effect: Effect, hook: Any) -> bool:
        """Return whether a hook changes what the step has made in this trace: each call makes its own."""
        if self.scope.known is None:
            return False
        return self._is_on_made_object(effect, hook) or self._is_new(effect.target, hook)

    def _is_on_made_object(self, effect: Effect, hook: Any) -> bool:
        """Return whether a hook changes an attribute of an object that the step has made: each call makes its own."""
        target = effect.target
        if effect.attribute is None or self.scope.known is None or purity.origin_of(type(target)) != "user":
            return False
        return not isinstance(target, (TensorCore, Module, Optimizer, type)) and self._is_made(target, hook)

    def _is_of_made(self, read: Read, hook: Any) -> bool:
        """Return whether a hook reads an attribute of an object, or a container, that the step has made in this trace."""
        if self.scope.known is None:
            return False
        if isinstance(read.value, (list, dict, set, deque)) and self._is_made(read.get(), hook):  # the value is a copy
            return True
        is_object = purity.origin_of(type(read.owner)) == "user" and not isinstance(read.owner, (Module, type))
        return is_object and self._is_made(read.owner, hook)

    def _is_made(self, target: Any, hook: Any) -> bool:
        if id(target) in self._old:
            return False
        if running_trace().is_new(target, hook):
            return True
        self._old[id(target)] = target
        return False

    def _traced(self, hook_call: HookCall, holders: list[MutableMapping[Any, Any]]) -> Any:
        """Run the hook in the trace. At most, it stores something that is the same in every call."""
        inputs_before = len(running_trace().host_inputs)
        try:
            return self._run(hook_call, holders, "it only computes with tensors")
        except NeedsValue as error:
            self.fired = hook_call.number  # inside a hook on the host nothing fires
            if self._only_computes(hook_call):
                try:
                    return self._run(
                        hook_call, holders, "it only computes with tensors, and decides by their values", True
                    )
                except (NeedsValue, TooManyWays):
                    self.fired = hook_call.number
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

    def _only_computes(self, hook_call: HookCall) -> bool:
        """Return whether a hook only computes its result, so that it may be traced path by path."""
        hook, args, effects, _ = hook_call
        given = [each for each in leaves(args) if isinstance(each, TensorCore)]
        records = local.modes.grad_enabled and any(each._requires_grad for each in given)
        does_more = effects.effects or effects.writes or effects.draws or effects.returns is False
        if does_more or records or not local.modes.backward_depth:  # code after a forward hook has the tensor itself
            return False
        return not (_is_batched(args) or self._is_pack(hook) or id(hook) in self.packs)

    def _run(
        self, hook_call: HookCall, holders: list[MutableMapping[Any, Any]], why: str, by_branches: bool = False
    ) -> Any:
        hook, args, effects, _ = hook_call
        self._find_caches(effects)
        before = [(array, array.value) for array in _arrays(args, effects)]
        stores, n_stores, n_stored = self.in_program.stores, len(self.in_program.stores), len(self.in_program.stored)
        stores += [(holder, entries_of(holder)) for holder in holders]
        self.in_program.stored += [
            (holder, effect)
            for effect in effects.effects
            if (holder := _holder(effect)) is not None and not self._is_on_own(effect, hook)
        ]
        stopped: list[BaseException] = running_trace().stopped
        earlier = len(stopped)
        hangs = any("register" in effect.what for effect in effects.effects)
        on_leaves = hooks_on_leaves(running_trace().state.tensors) if hangs else []
        try:
            fire = lambda: hooks.fire(hook, *args, decided=True)
            self.traced_hooks += 1
            try:
                answer = self._chosen_by_branches(hook, args, fire) if by_branches else fire()
            finally:
                self.traced_hooks -= 1
            if stopped[earlier:]:  # the hook itself handled the error
                raise stopped[earlier]
            if hangs and hooks_on_leaves(running_trace().state.tensors) != on_leaves:
                raise self._refusal(hook, f"it registers a hook on a tensor from outside. {_HOOKS}")
        except NeedsValue:
            del stopped[earlier:]
            for array, value in before:
                array.write(value)
            for holder, key, held, _ in [change for store in stores[n_stores:] for change in changes_in(*store)]:
                put(holder, key, held)
            del stores[n_stores:], self.in_program.stored[n_stored:]
            raise
        except Exception:
            self._depend_on(hook, effects)  # the step may handle the error, which does not occur with all values
            raise
        self._depend_on(hook, effects)
        if effects.effects:
            for array in _arrays_of((args, answer)):
                self.aliases.keepers.setdefault(array.buffer, []).append(hook)
        self._place(hook, "in the program", why)
        return answer

    def _depend_on(self, hook: Any, effects: Effects) -> None:
        """Guard the reads and the code of a hook that ran in the trace."""
        self.in_program.reads += [  # a tensor of this trace: each call puts its own there before the hook reads it
            read
            for read in (*effects.reads, *effects.holds)
            if not (isinstance(read.value, SymbolicScalar) or self._is_renewed(read.value))
            and not (isinstance(read.owner, CellType) and running_trace().is_new(read.owner, hook))
            and not self._is_of_made(read, hook)
        ]
        self.in_program.reads += [
            of_holder(read, *read.kept_at)
            for read in effects.reads
            if isinstance(read.value, SymbolicScalar) and read.kept_at is not None
        ]
        self.in_program.traced.append((hook, effects))

    def _chosen_by_branches(self, hook: Any, args: tuple[Any, ...], fire: Callable[[], Any]) -> Any:
        """Fire a hook once for each path through it, and return the result that the program chooses."""
        changed = changed_argument(hook, args)
        if changed is None:
            raise TooManyWays
        branches = HookBranches(running_trace().decisions, fire, args[changed])
        result = branches.result()
        if any(map(self.aliases.is_kept, branches.chosen)):
            raise TooManyWays  # what is kept shares memory with the result, but only on some paths
        self.aliases.choose(hook, [each for each in leaves(result) if isinstance(each, TensorCore)], branches.chosen)
        return result

    def _may_come_apart(self, hook_call: HookCall) -> bool:
        """Return whether to split a hook that the program would wait for, or that would be refused."""
        hook, args, effects, _ = hook_call
        others = [effect for effect in effects.effects if not acts_on_own(effect)]
        comes_after = effects.returns is False and not effects.writes and len(others) == len(effects.effects)
        if self.plan.splitter is None or self._is_pack(hook) or id(hook) in self.packs:
            return False
        if comes_after and not any(isinstance(each, TensorCore) for each in leaves(args)):
            return False  # nothing to compute
        if not (others or comes_after):
            return False
        if any(
            effect.field == "unknown" or isinstance(effect.target, (RemovableHandle, LRScheduler)) for effect in others
        ):
            return False
        if any(id(effect.target) in self.scope.groups for effect in others):
            return False  # options of optimizers, which are refused
        given = objects_in([each for each in leaves(args) if kind_of(each) == "other"], ())
        # The analysis of single statements does not know what is in the hook's arguments.
        if any(id(effect.target) in given for effect in effects.effects):
            return False
        call = hook, *kinds_of(args)
        return self.plan.splitter.split_hook(call, self._met, [*hooks_alike(running_trace().state, call)])

    def _in_parts(self, hook_call: HookCall, key: Any) -> Any:
        """Run a split hook now; some of its statements are moved to the host."""
        hook, effects, splitter = hook_call.hook, hook_call.effects, self.plan.splitter
        assert splitter is not None
        holders = [holder for holder in map(_holder, effects.effects) if holder is not None]
        stopped: list[BaseException] = running_trace().stopped
        earlier = len(stopped)
        try:
            if self._must_be_hosted(hook) or not all(self._may_be_traced(effect, hook) for effect in effects.effects):
                raise CompileError
            if splitter.does_more() and _is_seen():
                raise CompileError
            may_run_whole = not (effects.writes or any(map(acts_on_own, effects.effects)))
            given = set(map(id, leaves(hook_call.args))) if may_run_whole else set()
            outer, self.given_to_hook = self.given_to_hook, given
            try:
                answer = self._run(hook_call, holders, "its statements that do more than compute run on the host")
            finally:
                self.given_to_hook = outer
        except Exception as error:
            if isinstance(error, TraceAborted) and not isinstance(error, (NeedsValue, CompileError)):
                raise
            del stopped[earlier:]
            if not (isinstance(error, NeedsValue) and splitter.move_what_needed(error)):
                splitter.keep_hook_whole(hook)  # work that eager mode would not do may raise
            raise Retrace from None
        self._met.add(key)
        return answer

    def _hosted(self, hook_call: HookCall, why: str) -> Any:
        """Run the hook on the host, after the program if nothing waits for it."""
        hook, args, effects, _ = hook_call
        if _is_batched(args):
            raise self._refusal(hook, f"{why}, {_BATCHED}")
        splitter = self.plan.splitter
        captured = [each for each in captured_by(hook) if isinstance(each, SymbolicScalar)]
        if captured:  # the step made the hook, for this call
            raise captured[0].refusal() if captured[0].is_asked else ScalarBecameConstant
        if self._may_come_apart(hook_call):
            raise Retrace
        for effect in filter(acts_on_own, effects.effects):
            why = f"it {effect}, on which the program depends, but has to run on the host, because {why}"
            raise self._refusal(hook, f"{why}. Let another hook do the first of these")
        for effect in effects.effects:
            if (
                self._is_new(effect.target, hook)
                and splitter is not None
                and splitter.reading.reads_variable(hook, effect.target)
            ):
                why = f"it {effect}, which the step itself has made, but has to run on the host, because {why}"
                raise self._refusal(hook, f"{why}. Make the object before the step, or let another hook fill it")
        self._find_variables(hook_call, why)
        for other, its in self.in_program.traced:  # it would read what they leave only at the end
            if its.effects and (its.feeds(effects) or self._contend(its, effects)):
                self._again(other)
        if effects.draws:  # later draws have to come after its own
            if not self.plan.all_inside:
                self.plan.all_inside, self.plan.waits_for = True, self._place(hook, "", "").name
                raise Retrace
            running_trace().host_inputs.inside = self.calls.has_inside = True
        self.hosted.append((hook, effects))
        self.changed.note(hook, effects, self.scope.entry)
        self._taken_out += [effect.target for effect in effects.effects if isinstance(effect.target, RemovableHandle)]
        found, places = self._found(hook, effects)
        if effects.returns is False and not effects.writes and not self.plan.all_inside:
            placed = self._place(hook, "after the program", why)
            self._put_off(self._noted(effects, DeferredCallback(hook, args, found, placed, places), hook_call.number))
            return None
        comes_too_late = any(its.feeds(effects) for its, call in self._calls if isinstance(call, DeferredCallback))
        if self.calls.later and (effects.effects or self._must_be_hosted(hook) or comes_too_late):
            self.plan.all_inside, self.plan.waits_for = True, self._place(hook, "", "").name
            raise Retrace
        if effects.effects:
            if effects.returns is not False:
                why += ", and may return something to the program"
            elif effects.writes:
                why += ", and writes into tensors"
            elif self.plan.waits_for:
                why += f", and fires before `{self.plan.waits_for}`, which the program waits for"
        return self._inside(hook_call, found, places, why)

    def _find_variables(self, hook_call: HookCall, why: str) -> None:
        """Record variables that the step makes and a hook on the host updates: each call starts with new ones."""
        for effect in hook_call.effects.effects:
            cell = effect.target
            if effect.kind == "update" and isinstance(cell, CellType) and self._is_new(cell, hook_call.hook):
                value = contents_of(cell)
                if not isinstance(value, PLAIN) or not same(
                    self.variables.setdefault(id(cell), (cell, value))[1], value
                ):
                    why = (
                        f"it {effect}, which is new in each call of the step, but has to run on the host, because {why}"
                    )
                    raise self._refusal(
                        hook_call.hook, f"{why}. Make the variable before the step, or let another hook change it"
                    )

    def _inside(self, hook_call: HookCall, found: list[Any], places: list[Any], why: str) -> Any:
        """Place the hook inside the program, which waits for it and goes on with its result."""
        hook, args, effects, _ = hook_call
        packs = self._is_pack(hook) and type(args[0]) is not Kept
        unpacks = id(hook) in self.packs
        if unpacks and not packs and type(args[0]) is not Kept:  # its argument comes from the pack hook
            self._again(self.packs[id(hook)])
        changed = changed_argument(hook, args) if effects.returns is not False or effects.writes else None
        if effects.returns is not False and changed is None:
            raise self._refusal(
                hook, f"{why}, and undertow can't tell what its result would replace. Let it return nothing"
            )
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
        if answer is None or changed is None or takes_no_answer(args):
            return None
        tensors = [[each for each in leaves(tree) if isinstance(each, TensorCore)] for tree in (args[changed], answer)]
        self.aliases.give_back(call, *tensors)
        return answer

    def _is_pack(self, hook: Any) -> bool:
        """Return whether a hook packs a tensor that is being saved."""
        saving = local.modes.saved_hooks
        if not saving or saving[-1][0] is not hook:
            return False
        self.packs[id(saving[-1][1])] = hook
        return True


def _is_seen() -> bool:
    """Whether modes or hooks of the user are called for each operation, or for the tensors that it saves."""
    modes = local.modes
    return bool(modes.saved_hooks or modes.function_modes or modes.dispatch_modes)


def _told(hook: Any, *args: Any) -> None:
    if HookPlacer.witness is not None:
        HookPlacer.witness(hook, *args)


def _arrays(given: Any, effects: Effects) -> list[DeviceArray]:
    """Return the arrays that a hook may write to before it turns out that it can't be traced."""
    if not effects.writes:
        return []
    return _arrays_of([given, *[tensor for read in effects.holds for tensor in tensors_of(read.get())]])


def _arrays_of(tree: Any) -> list[DeviceArray]:
    """Return the arrays of tensors and of their gradients."""
    tensors = [each for each in leaves(tree) if isinstance(each, TensorCore) and each._is_strided]
    tensors += [each._meta.grad for each in tensors if each._meta is not None and each._meta.grad is not None]
    return [tensor._array for tensor in tensors if type(tensor._array) is DeviceArray]


def _holder(effect: Effect) -> MutableMapping[Any, Any] | None:
    """Return the mapping that a store changes, if the store is the same in every call or the mapping is guarded."""
    if effect.target is None or (effect.kind != "store" and not acts_on_own(effect)):
        return None
    return holder_of(effect.target, effect.attribute)


def _is_batched(args: tuple[Any, ...]) -> bool:
    """Return whether a hook is called by a backward pass for many gradients at once, with all of them as one tensor."""
    parts = [part for each in args for part in (each if isinstance(each, (tuple, list)) else (each,))]
    return any(isinstance(part, TensorCore) and hasattr(type(part), "_level") for part in parts)
