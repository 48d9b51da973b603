"""Calls of hooks on the host, after the program (`DeferredCallback`) or inside it (`OrderedCallback`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import Context
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.base import hooks
from undertow._src.base.modes import local, set_grad_enabled
from undertow._src.base.tree import leaves, map_leaves
from undertow._src.compile.callbacks.call_contexts import Defaults, busy, no_draws, no_packing, uncompiled
from undertow._src.compile.callbacks.call_outcome import CallOutcome, equal_values
from undertow._src.compile.callbacks.hook_view import (
    HookView,
    HostTensors,
    Kept,
    Shown,
    ShownCall,
    gradient_of,
    tensors_in,
)
from undertow._src.compile.callbacks.registrations import Removals, where_defined
from undertow._src.compile.callbacks.tensor_mirrors import (
    HostMirror,
    MirrorState,
    has_marks,
)
from undertow._src.compile.effects import purity
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import put
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.sparse_parts import apart
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import cpu
from undertow.amp.casting import autocast_as_it_was

_NO_WAY_BACK = (
    "It has effects besides tensor work, so it runs on the host, where gradients can't flow through what it writes. Let "
    "one hook compute, and another one do the rest"
)


class Placed:
    """Where a hook runs, and why; for `explain`."""

    __slots__ = ("hook", "name", "where", "registered", "runs", "why")
    what = "hook"

    def __init__(self, hook: Any, runs: str, why: str, registered: str = "") -> None:
        self.hook, self.runs, self.why, self.registered = hook, runs, why, registered
        self.name = getattr(hook, "__qualname__", None) or type(hook).__name__
        self.where = where_defined(hook)

    def __str__(self) -> str:
        """Return the hook, for messages."""
        known = (("defined at", self.where), ("registered at", self.registered))
        places = ", ".join(f"{what} {place}" for what, place in known if place)
        return f"the {self.what} {self.name}" + (f" ({places})" if places else "")


class HostCall:
    """One call of a hook, to be made when values are known."""

    captures_all = True  # whether it also captures tensors from outside that the step has not written to
    is_inside = True  # whether it is made inside the program
    may_write = False  # whether the hook may write to tensors
    draws_before = 0  # how many draws the step makes before it
    draws_follow = False  # whether the step draws after it: those draws are already made
    is_certain = False  # whether it cannot raise, so that nothing has to be undone
    order = 0  # its number among all hooks and marked statements of the trace
    streams: Sequence[Any] = ()  # streams that the step draws from: a replay rewinds them
    removals = Removals(())  # of hooks
    context = Context()  # a copy of the step's: XLA calls back in threads of its own
    variables: Sequence[tuple[Any, Any]] = ()  # new cells of each call that this hook changes, and their contents

    def __init__(
        self, hook: Any, args: Any, found: list[Any], placed: Placed | None = None,
        places: Sequence[tuple[Any, Any]] = (),
    ) -> None:  # fmt: skip
        self.hook, self.placed = hook, placed or Placed(hook, "", "")
        self.recording, self.autocast = local.modes.grad_enabled, local.modes.autocast
        self.defaults = Defaults.now()
        # Saved-tensor hooks that eager mode would call for what this hook computes.
        self.packs = any(
            purity.origin_of(pack) != "own" and hook is not pack and hook is not unpack
            for pack, unpack, _ in local.modes.saved_hooks
        )
        trace = running_trace()
        schedules = trace.schedules
        self.schedules = nullcontext if schedules is None else partial(schedules.at_turn, len(schedules.made))
        self._mirrors, self._device = trace.placer.mirrors, trace.device
        self._mirrors.calls_of(self.is_inside)
        self.view = HookView(hook, args, found, places, self.captures_all)
        modes = [*local.modes.function_modes, *local.modes.dispatch_modes]
        if modes and any(isinstance(each, TensorCore) for each in (*leaves(args), *leaves(found))):
            raise CompileError(
                f"undertow.compile: {self.placed} runs on the host with tensors, inside the mode "
                f"{type(modes[-1]).__name__}, which is not active there. Leave the mode before, or let hooks and "
                "statements inside it do nothing but compute with tensors."
            )
        self.outcome = CallOutcome()  # of the current call of the program

    def begin(self) -> None:
        """Forget the outcome of the last call, before the next call of the program."""
        self.outcome = CallOutcome()
        self.removals.begin()
        for cell, value in self.variables:
            put(cell, None, value)

    def call(self, values: list[Any]) -> tuple[Any, Any, list[Any]]:
        """Call the hook. Return its arguments, its result, and the values of the tensors after it.

        Even if the call is not made, tensors kept by earlier hooks are updated to this point of the step.
        """
        try:
            with self.view.shown(self.hook, values, self._device, self.placed) as shown:
                return self._call(shown, values)
        finally:
            if not self.draws_follow:
                self.outcome.states_after = [(stream, stream.get_state()) for stream in self.streams]

    def _call(self, shown: ShownCall, values: list[Any]) -> tuple[Any, Any, list[Any]]:
        view, tensors = self.view, shown.tensors
        self.before_hook(tensors)
        shown_gradients = [(state.grad.mirror, tensors[state.mirror]) for state in view.own() if state.grad is not None]
        gradients = [gradient_of(tensor) for _, tensor in shown_gradients]
        self.outcome.note_gradients(view.gradients, [*zip([tensor for _, tensor in shown_gradients], gradients)])
        # Now, because the hook may change a list among them. Only if needed: containers may contain themselves.
        given = tensors_in(shown.args) if self.may_write else []
        values_before = view.values_of(tensors, given) if self.may_write else ()
        memories = [
            (each, each._array) for each in (*tensors.values(), *gradients) if each is not None and each._is_strided
        ]
        before_hook = {each.mirror: gradient_of(tensors[each.mirror]) for each in view.wrappers()}
        undrawn = no_draws(self.placed) if self.draws_follow else nullcontext()
        unpacked = no_packing(self.placed) if self.packs else nullcontext()
        with (
            set_grad_enabled(self.recording),
            autocast_as_it_was(self.autocast),
            self.defaults.again(),
            self.schedules(),
            undrawn,
            unpacked,
        ):
            try:
                with self.removals:
                    answer = hooks.fire(shown.hook, *shown.args, decided=True) if view.takes_effect(values) else None
            except Exception:
                if self.may_write:  # a replay also writes what it wrote before it raised
                    self.outcome.note_writes(view, shown, given, values_before)
                raise
        if any(is_elsewhere(tensor._array, array) for tensor, array in memories):
            raise CompileError(
                f"undertow.compile: {self.placed} runs on the host and gives a tensor other memory (`.data = …`), which "
                "the program can't see. Write in place: `tensor.data.copy_(new)`."
            )
        for wrapper in view.wrappers():
            if gradient_of(tensors[wrapper.mirror]) is not before_hook[wrapper.mirror]:
                raise CompileError(
                    f"undertow.compile: {self.placed} runs on the host and sets .grad of a distributed tensor. Do it in a "
                    "hook that does nothing else."
                )
        for state in view.computed():
            self._refuse_marks(tensors[state.mirror], state)
        for (mirror, tensor), earlier in zip(shown_gradients, gradients):
            if gradient_of(tensor) is not earlier and gradient_of(tensor) is not None:
                self._mirrors.replace(mirror, tensor, gradient_of(tensor), self.placed)
        held = self._held(tensors) if self.may_write else []
        if self.may_write:
            self.outcome.note_writes(view, shown, given, values_before)
        self.outcome.note_answer(answer, view, shown)
        for state in (*view.computed(), *[each.grad for each in view.own() if each.grad is not None]):
            if self.may_write:
                state.mirror.memory.note_writes()
        return shown.args, answer, held

    def before_hook(self, host_tensors: HostTensors) -> None:
        """Prepare the tensors for the hook."""

    def _held(self, host_tensors: HostTensors) -> list[Any]:
        """Return the current values of tensors: those from outside, with their gradients, then the computed ones."""
        held: list[Any] = []
        for state in self.view.own():
            tensor = host_tensors[state.mirror]
            held.append(np.array(tensor._array))
            now = gradient_of(tensor)
            if (now is None) is not (state.grad is None):
                raise CompileError(
                    f"undertow.compile: {self.placed} sets a .grad {'to None ' if now is None else ''}and also has "
                    "effects besides tensor work. One hook of a compiled step can't do both: make two hooks of it."
                )
            if now is not None:
                held.append(np.array(now._array))
        return held + [np.array(host_tensors[state.mirror]._array) for state in self.view.computed()]

    def _refuse_marks(self, tensor: Any, state: MirrorState) -> None:
        """Raise if the hook has changed more of a tensor than its values: the tensor is a copy, so that would be lost."""
        what = ""
        if vars(tensor):
            what = f"sets an attribute of one ({', '.join(vars(tensor))})"
        elif has_marks(tensor):
            what = "registers a hook on one, or has it retain its gradient"
        elif tensor._requires_grad is not state.position.requires_grad:
            what = "sets requires_grad of one"
        if what:
            raise CompileError(
                f"undertow.compile: {self.placed} runs on the host, where it is shown copies of tensors, and {what}. That "
                "would be lost with the copy: do it in a statement or a hook that does nothing else."
            )

    def refuse_writes(self, after: list[Any], before: list[Any], why: str) -> None:
        """Raise if the values of tensors have changed."""
        for array, was in zip(after, before, strict=True):
            if not equal_values(np.asarray(array), np.asarray(was)):
                raise CompileError(
                    f"undertow.compile: {self.placed} wrote into a tensor of shape {list(array.shape)}. {why}"
                )


class DeferredCallback(HostCall):
    """A call made after the program."""

    captures_all = False  # tensors from outside still have their values from before the step
    is_inside = False
    begins = False  # whether it is made before the program instead
    only_notes = False  # whether it is a statement that cannot raise and computes nothing with tensors
    looks = False  # whether it is a statement that needs the values of tensors
    _variables: list[tuple[str, Any]] | None = None  # those of such a statement, if it sees nothing else

    def __init__(self, *given: Any) -> None:
        self._before: list[Any] = []  # the values of tensors
        super().__init__(*given)

    def before_hook(self, host_tensors: HostTensors) -> None:
        if self.may_write:
            self._before = self._held(host_tensors)

    def finish(self) -> None:
        """Prepare for calls, after the trace."""
        if self.only_notes and self.defaults == Defaults.now():
            self._variables = self.view.only_variables()

    @property
    def is_note(self) -> bool:
        """Whether it sees nothing but variables, and records them."""
        return self._variables is not None

    def prefetch(self) -> list[DeviceArray]:
        """Return the one-element device arrays that the call reads, so that all calls' are fetched together."""
        is_off_cpu = self._device is not cpu and self.looks
        return [array for array in self.view.captured if is_off_cpu and array.size == 1]

    def run(self) -> None:
        """Call the hook with the values of this step."""
        values = [array.buffer.value for array in self.view.captured]
        if self._variables is not None:
            self._note(self._variables, values)
            return
        try:
            _, answer, after = self.call(values)
        except Exception as error:
            self.outcome.error = error
            raise
        self.outcome.done = True
        if answer is not None:
            raise CompileError(
                f"undertow.compile: {self.placed} returned a value, but it runs after the program, when nothing can use it "
                "any more. Let one hook compute what is returned, and another one do the rest."
            )
        if self.may_write:
            self.refuse_writes(
                after,
                self._before,
                "It runs after the program, too late for a write: write in a statement of its own.",
            )

    def _note(self, variables: list[tuple[str, Any]], values: list[Any]) -> None:
        """Run a statement that only records its variables: nothing has to be restored or checked after it."""
        shown = Shown(self.placed, values, self._device)
        try:
            hooks.fire(self.hook, {name: shown(part) for name, part in variables}, decided=True)
        except BaseException as error:
            self.outcome.error = error if isinstance(error, Exception) else None
            raise
        self.outcome.done = True


class UnfitAnswer(CompileError):
    """A hook returned a result that the program can't use: the step is run eagerly, with that result."""


class OrderedCallback(HostCall):
    """A call that the program waits for."""

    values: Sequence[Any] = ()  # what was captured, during a call
    may_return_given = True  # whether its result may share memory with its arguments

    def __init__(self, hook: Any, args: Any, *more: Any) -> None:
        super().__init__(hook, args, *more)
        self.given = apart(args)

    def look_at(self, tensor: Any) -> int:
        """Return the index of the captured value of a tensor of the trace."""
        place = self.view.seen(tensor).place
        assert place is not None
        return place

    def place(self, changed: int | None, writes: bool, raised: list[BaseException], elsewhere: bool = False) -> Any:
        """Put the call into the program; return stand-ins for the hook's result.

        The hook may not write to its arguments.
        """
        given = None if changed is None else self.given[changed]
        if (writes or changed is not None) and self.view.wrappers():
            raise CompileError(
                f"undertow.compile: {self.placed} runs on the host, writes to a tensor or returns one, and is shown a "
                "distributed tensor. Make two hooks of it: one that computes, and one that prints or keeps."
            )
        wanted = [self.view.captured[self.look_at(each)] for each in leaves(given) if isinstance(each, TensorCore)]
        targets: list[DeviceArray] = []
        self.may_write = writes
        if writes:
            for state in self.view.own():
                if state.grad is not None:
                    mirror = state.grad.mirror
                    mirror.has_aliases = running_trace().placer.keeps_alias(mirror.kept, self._mirrors.over())
                targets += [each.mirror.kept._array for each in (state, state.grad) if each is not None]
            targets += [] if elsewhere else [state.mirror.kept._array for state in self.view.computed()]
        mirrors: list[HostMirror] = []
        n_targets = len(targets)  # the arrays themselves would be outputs of the program, if `results` had them
        specs = [_spec(each) for each in (*wanted, *targets)]
        places = [state.place for state in self.view.computed() if state.place is not None]
        wraps = local.modes.backward_pass is None  # a hook before a forward may return one argument by itself

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            if elsewhere:
                self.refuse_writes(after[n_targets:], [self.values[place] for place in places], _NO_WAY_BACK)
                del after[n_targets:]
            tensors = [] if changed is None else self._fitting(answer, args[changed], wraps)
            if changed is not None and not self.may_return_given:
                self._refuse_given(tensors, args[changed])
            for mirror, tensor, spec in zip(mirrors, tensors, specs):
                if type(tensor._array) is DeviceArray and tensor._array.device is cpu:  # an alias of one from outside
                    tensor._array = tensor._array.on_host()
                if isinstance(tensor._array, np.ndarray) and tensor._array.dtype == spec.dtype:
                    mirror.replace_by(tensor)
            for state in self.view.computed():
                state.mirror.memory.leave_to(tensors)
            given = [np.array(tensor._array).astype(spec.dtype) for tensor, spec in zip(tensors, specs)]
            return [*given, *(after if writes else ())]

        values = self._call_in_program(results, specs, raised)
        for target, value in zip(targets, values[len(wanted) :]):
            target.write(value)
        if changed is None:
            return None
        made = [wrap(DeviceArray(value)) for value in values[: len(wanted)]]
        mirrors += map(self._mirrors.mirror_of, made)
        fresh = iter(made)
        return map_leaves(lambda part: next(fresh) if isinstance(part, TensorCore) else part, given)

    def keep(self, saved: DeviceArray, raised: list[BaseException]) -> Kept:
        """Return the call of a pack hook, whose result is kept on the host."""
        kept = Kept(_spec(saved))

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            kept.value = answer
            return []

        self._call_in_program(results, [], raised)
        return kept

    def give(self, kept: Kept, raised: list[BaseException]) -> Any:
        """Return the call of an unpack hook: it returns a tensor like the one that was saved."""
        spec = kept.spec

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            if not isinstance(answer, TensorCore):
                raise TypeError(
                    f"Output of saved tensor unpack_hook expected to be a Tensor; it returned {type(answer)}"
                )
            if answer.shape != spec.shape:
                raise CompileError(
                    f"undertow.compile: {self.placed} returned a tensor of shape {list(answer.shape)} for one that was "
                    f"saved with shape {list(spec.shape)}, but the shapes of a program are fixed. Return the shape that "
                    "was "
                    "saved."
                )
            return [np.array(answer._array).astype(spec.dtype)]

        (value,) = self._call_in_program(results, [spec], raised)
        return wrap(DeviceArray(value))

    def _call_in_program(self, results: Callable[..., list[Any]], spec: list[Any], raised: list[BaseException]) -> Any:
        decisions = running_trace().decisions
        operands = decisions.operands()

        def on_host(*values: Any) -> list[Any]:
            nothing = [np.zeros(each.shape, each.dtype) for each in spec]
            asked, values = values[: len(operands)], values[len(operands) :]
            if raised or not decisions.hold(asked):  # eager code would not get here: discard the results
                return nothing
            try:
                self.values = list(values)
                with uncompiled(), busy(self._device):
                    called = self.call(self.values)
                    given = (
                        [np.asarray(each) for each in results(*called)] if self.view.takes_effect(values) else nothing
                    )
                self.outcome.done, self.outcome.answer = True, called[1]
                self._mirrors.answered.append(self)
                return given
            except UnfitAnswer as error:
                self.outcome.done, self.outcome.answer = True, called[1]
                raised.append(error)
                return nothing
            except BaseException as error:
                self.outcome.error = error
                raised.append(error)
                return nothing
            finally:
                self.values = ()

        def in_context(*values: Any) -> list[Any]:
            return self.context.run(on_host, *values)

        values = io_callback(in_context, spec, *operands, *[array.value for array in self.view.captured], ordered=True)
        self.view.captured.clear()  # else they would be outputs of the program
        self.given = ()
        return values

    def _refuse_given(self, tensors: list[Any], given: Any) -> None:
        """Raise if a hook returned memory of its arguments."""
        arrays = [each._array for each in leaves(given) if isinstance(each, TensorCore)]
        if any(np.may_share_memory(tensor._array, array) for tensor in tensors for array in arrays):
            raise CompileError(
                f"undertow.compile: {self.placed} runs on the host and returned the tensor that it was given, or an alias "
                "of it, or None, while the step also keeps that tensor or writes to it. In eager mode they share memory, "
                "and in a program they would not. Return a clone()."
            )

    def _fitting(self, answer: Any, given: Any, wraps: bool) -> list[Any]:
        """Return the tensors of a hook's result that replace others. Raise UnfitAnswer if the program can't use them."""
        if wraps and isinstance(given, tuple) and isinstance(answer, TensorCore):
            answer = (answer,)
        if answer is not None and not _is_alike(answer, given):
            raise UnfitAnswer(
                f"undertow.compile: {self.placed} runs on the host and returned something of a different kind, shape or "
                "dtype than its argument, but those of a program are fixed. Return tensors like those that it gets."
            )
        return [each for each in leaves(given if answer is None else answer) if isinstance(each, TensorCore)]


def _is_alike(answer: Any, given: Any) -> bool:
    """Return whether a hook's result differs from its argument only in the values of tensors."""
    if type(answer) is not type(given):
        return False
    if isinstance(given, TensorCore):
        pair = answer, given
        kinds = [(each.shape, each.dtype, each.device, each._is_strided, each._requires_grad) for each in pair]
        return kinds[0] == kinds[1]
    if isinstance(given, dict):
        return [*answer] == [*given] and all(_is_alike(answer[key], part) for key, part in given.items())
    if isinstance(given, (tuple, list)):
        return len(answer) == len(given) and all(map(_is_alike, answer, given))
    return answer is given or (isinstance(given, (int, float, str)) and repr(answer) == repr(given))


def is_elsewhere(array: Any, before: Any) -> bool:
    """Return whether a tensor was given other memory: its array is another one."""
    if array is before or type(array) is not type(before):
        return False
    if type(array) is DeviceArray:
        return array.buffer is not before.buffer
    return bool(array.__array_interface__["data"] != before.__array_interface__["data"])


def _spec(array: DeviceArray) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
