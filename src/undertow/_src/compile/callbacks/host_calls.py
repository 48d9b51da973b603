"""A hook that runs on the host: its arguments, and the tensors it finds by name, as they were when its turn came."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.base import hooks
from undertow._src.base.modes import local, set_grad_enabled
from undertow._src.base.tree import leaves, map_leaves
from undertow._src.compile.callbacks.captured import bound_by
from undertow._src.compile.callbacks.container_mirrors import ContainerMirror, ContainerState
from undertow._src.compile.callbacks.registrations import Removals, where_defined
from undertow._src.compile.callbacks.tensor_mirrors import (
    AliasMirror,
    ExternalMirror,
    HostMirror,
    MirrorState,
    has_marks,
)
from undertow._src.compile.effects import purity
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import held_at, put
from undertow._src.compile.tracing.running import running_trace
from undertow._src.compile.tracing.sparse_parts import Parts, apart, is_sparse, parts_of_sparse
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.engine.apply import place_operands
from undertow._src.random.generators import alive
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import device as Device
from undertow.amp.casting import autocast_as_it_was
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer
from undertow.sparse.coo import make

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


class _ShownNumber:
    """In the place of a number: which captured value it is, and of which type."""

    __slots__ = ("kind", "place")

    def __init__(self, place: int, kind: Any) -> None:
        self.place, self.kind = place, kind


class _Contents(list[Any]):
    """In the place of all that a list, deque or set holds: what stands for each of its elements."""


class Kept:
    """In the place of what a pack hook on the host gave: it stays there, until the unpack hook is called with it."""

    __slots__ = ("value", "spec")

    def __init__(self, spec: jax.ShapeDtypeStruct) -> None:
        self.value: Any = None
        self.spec = spec  # what the saved tensor looks like


class HostCall:
    """One call of a hook, to be made when values are known.

    The tensors that it is given or finds by name are mirrors (`host_mirrors`), seen as they were when the hook's turn came.
    """

    captures_all = True  # also tensors from outside to which the step has not written
    may_write = False  # whether it is to be known afterwards what the tensors hold
    draws_before = 0  # how many draws the step has made before its turn
    draws_follow = False  # whether the step makes others after it: by then they are made
    order = 0  # among all hooks and marked statements of the trace
    streams: Sequence[Any] = ()  # from which the step draws: a replay rewinds them
    states_after: Sequence[tuple[Any, Any]] = ()  # what they were after it, if the step makes no draws after it
    done = False  # whether it was made in the present call of the program
    answer: Any = None  # what it gave then
    error: BaseException | None = None  # what it raised
    answered_with: Sequence[Any] = ()  # the values of tensors in its answer, which become gradients that go on changing
    written: Sequence[Any] = ()  # what the tensors that it was given held afterwards, those into which it wrote
    removals = Removals(())  # of hooks
    variables: Sequence[
        tuple[Any, Any]
    ] = ()  # cells that the step makes at every call and this changes: what they hold
    written_outside: Sequence[
        tuple[Any, Any, Any]
    ] = ()  # the same of others: a tensor from outside, its values, its gradient's

    def __init__(
        self, hook: Any, args: Any, found: list[Any], placed: Placed | None = None,
        places: Sequence[tuple[Any, Any]] = (),
    ) -> None:  # fmt: skip
        self.hook, self.placed = hook, placed or Placed(hook, "", "")
        self.recording, self.autocast = local.modes.grad_enabled, local.modes.autocast
        # Hooks of the user's on tensors that are saved, which eager mode would call for what this one computes.
        self.packs = any(
            purity.origin_of(pack) != "own" and hook is not pack and hook is not unpack
            for pack, unpack, _ in local.modes.saved_hooks
        )
        schedules = running_trace().schedules
        self.schedules = nullcontext if schedules is None else partial(schedules.at_turn, len(schedules.made))
        self.captured: list[DeviceArray] = []
        choice = running_trace().choice
        self.only_if = None if choice is None else self._capture(choice)
        self._mirrors = running_trace().placer.mirrors
        self.states: dict[HostMirror, MirrorState] = {}
        self.contents: dict[ContainerMirror, ContainerState] = {}
        self.taken = self._mirrors.was_taken()
        self.updates = [
            self._state_of(mirror) for mirror in self._mirrors.stale_mirrors()
        ]  # what hooks before this one may have kept
        self.updated_containers = [self._contents_of(container) for container in self._mirrors.stale_containers()]
        for tensor in found:
            self._seen(tensor, by_name=True)
        self.args = tuple([self._taken(arg) for arg in args])
        self.bound = bound_by(hook, self._taken)
        self.state = [(place, self._held_at(*place)) for place in places]  # what it finds in Python's places

    def _held_at(self, holder: Any, key: Any) -> Any:
        held = held_at(holder, key)
        return _Contents(map(self._taken, held)) if isinstance(key, slice) else self._taken(held)

    def _capture(self, array: DeviceArray) -> int:
        self.captured.append(array.copy())
        return len(self.captured) - 1

    def _state_of(self, mirror: HostMirror) -> MirrorState:
        state = self._mirrors.state_of(mirror, self._capture, self.captures_all)
        for each in (mirror, None if state.grad is None else state.grad.mirror):
            if isinstance(each, AliasMirror):
                self._seen(each.owner.kept)  # before it, so that the memory holds what it held at the turn
        return state

    def _seen(self, tensor: Any, by_name: bool = False) -> MirrorState:
        place_operands((tensor,))
        mirror = self._mirrors.mirror_of(tensor, by_name)
        if mirror not in self.states:
            self.states[mirror] = self._state_of(mirror)
        return self.states[mirror]

    def _taken(self, value: Any) -> Any:
        if isinstance(value, SymbolicScalar):
            return _ShownNumber(self._capture(value.as_array()), value.kind)
        if isinstance(value, (Module, Optimizer)):
            for tensor in tensors_of(value):
                self._seen(tensor, by_name=True)
        if is_sparse(value):
            return Parts(*map(self._taken, parts_of_sparse(value)))
        if isinstance(value, TensorCore):
            return self._seen(value)
        return self._contents_of(self._mirrors.container_of(value)) if running_trace().is_own(value) else value

    def _contents_of(self, container: ContainerMirror) -> ContainerState:
        if container not in self.contents:
            contents = self.contents[container] = container.current_state()
            contents.parts = contents.each(self._taken)
        return self.contents[container]

    def begin(self) -> None:
        """Before a call of the program: it was not made yet."""
        self.done, self.answer, self.error = False, None, None
        self.removals.begin()
        for cell, value in self.variables:
            put(cell, None, value)
        self.answered_with = self.written = self.written_outside = self.states_after = ()

    def own(self) -> list[MirrorState]:
        """Return the tensors from outside that it sees."""
        return [state for state in self.states.values() if state.mirror.itself]

    def tensors_from_outside(self) -> list[Any]:
        """Those themselves, during the trace."""
        return [state.mirror.kept for state in self.own()]

    def computed(self) -> list[MirrorState]:
        """Those that the step has computed."""
        return [state for state in self.states.values() if not state.mirror.itself]

    def is_made(self, values: Sequence[Any]) -> bool:
        """Whether the part of the step that it belongs to takes effect."""
        return self.only_if is None or bool(values[self.only_if])

    def call(self, values: list[Any]) -> tuple[Any, Any, list[Any]]:
        """Call the hook; what it was given, what it returned, and what the tensors held afterwards.

        Also if it is not made, what hooks before it keep is brought up to its turn.
        """
        device = self.device()
        before = [(place, held_at(*place)) for place, _ in self.state]
        self._mirrors.decide(self.taken)
        try:
            for state in self.updates:
                state.update(values, device)
            host_tensors = {mirror: state.materialize(values, device) for mirror, state in self.states.items()}
            shown = _Shown(self, host_tensors, values)
            for contents in self.updated_containers:
                if contents.container.live is not None:
                    shown(contents)
            args = tuple(map(shown, self.args))
            for (holder, key), held in self.state:
                put(holder, key, shown(held))
            hook = self.hook if self.bound is None else self.bound.bind(self.hook, shown)
            self.before_hook(host_tensors)
            shown_gradients = [
                (state.grad.mirror, host_tensors[state.mirror]) for state in self.own() if state.grad is not None
            ]
            gradients = [_gradient_of(tensor) for _, tensor in shown_gradients]
            values_before = self._contents(host_tensors, args) if self.may_write else ()
            undrawn = _no_draws(self.placed) if self.draws_follow else nullcontext()
            unpacked = _no_packing(self.placed) if self.packs else nullcontext()
            with (
                set_grad_enabled(self.recording),
                autocast_as_it_was(self.autocast),
                self.schedules(),
                undrawn,
                unpacked,
            ):
                try:
                    with self.removals:
                        answer = hooks.fire(hook, *args, decided=True) if self.is_made(values) else None
                except Exception:
                    if self.may_write:  # what it wrote before it raised, a replay writes too
                        self._note_writes(host_tensors, args, values_before)
                    raise
            for state in self.computed():
                self._refuse_marks(host_tensors[state.mirror], state)
            for (mirror, tensor), earlier in zip(shown_gradients, gradients):
                if _gradient_of(tensor) is not earlier and _gradient_of(tensor) is not None:
                    self._mirrors.replace(mirror, tensor, _gradient_of(tensor), self.placed)
            held = self._held(host_tensors) if self.may_write else []
            if self.may_write:
                self._note_writes(host_tensors, args, values_before)
            self._note_answer(answer, host_tensors)
            for state in (*self.computed(), *[each.grad for each in self.own() if each.grad is not None]):
                if self.may_write:
                    state.mirror.memory.note_writes()
            return args, answer, held
        finally:
            if not self.draws_follow:
                self.states_after = [(stream, stream.get_state()) for stream in self.streams]
            for (holder, key), held in reversed(before):
                put(holder, key, held)
            for state in (*self.updates, *self.states.values()):
                state.restore()

    def _contents(self, host_tensors: dict[HostMirror, Any], given: Any) -> list[Any]:
        """Return what tensors hold: those that the hook is given, those from outside, and the gradients of these."""
        outside = [host_tensors[state.mirror] for state in self.own()]
        tensors = [*_tensors_in(given), *outside, *map(_gradient_of, outside)]
        return [None if each is None else np.array(each._array) for each in tensors]

    def _note_writes(self, host_tensors: dict[HostMirror, Any], given: Any, before: Sequence[Any]) -> None:
        """Note what the hook wrote.

        What it left alone is not noted: a replay computes it anew, rounded otherwise, and to write it would be a write.
        """
        written = [
            None if now is None or (was is not None and _equal(now, was)) else now
            for now, was in zip(self._contents(host_tensors, given), before, strict=True)
        ]
        found = [state.mirror.find() for state in self.own() if isinstance(state.mirror, ExternalMirror)]
        n_given, n_found = len(written) - 2 * len(found), len(found)
        self.written = written[:n_given]
        self.written_outside = [*zip(found, written[n_given:], written[n_given + n_found :])]

    def _note_answer(self, answer: Any, host_tensors: dict[HostMirror, Any]) -> None:
        """Note the values of tensors in an answer; those of tensors from outside a replay finds where they are."""
        outside = [host_tensors[state.mirror]._array for state in self.own()]
        self.answered_with = [
            None if any(np.may_share_memory(each._array, array) for array in outside) else np.array(each._array)
            for each in _tensors_in(answer)
        ]

    def repeat_writes(self, args: Any) -> None:
        """Write what the hook wrote when it was called, into the tensors of a step that runs once more."""
        pairs = [*zip(_tensors_in(args), self.written)]
        for tensor, value, gradient in self.written_outside:
            pairs += [(tensor, value), (_gradient_of(tensor), gradient)]
        for tensor, value in pairs:
            if tensor is not None and value is not None:
                _write_if_other(tensor, value)

    def repeat_answer(self) -> Any:
        """Return what the hook gave when it was called, with the values that it had then."""
        for tensor, value in zip(_tensors_in(self.answer), self.answered_with):
            if value is not None:
                _write_if_other(tensor.detach(), value)
        return self.answer

    def before_hook(self, host_tensors: dict[HostMirror, Any]) -> None:
        """Return the tensors are about to be shown."""

    def _held(self, host_tensors: dict[HostMirror, Any]) -> list[Any]:
        """Return what tensors hold now: those from outside, with their gradients, then the computed ones."""
        held: list[Any] = []
        for state in self.own():
            tensor = host_tensors[state.mirror]
            held.append(np.array(tensor._array))
            now = _gradient_of(tensor)
            if (now is None) is not (state.grad is None):
                raise CompileError(
                    f"undertow.compile: {self.placed} sets a .grad {'to None ' if now is None else ''}and also has "
                    "effects besides tensor work. In a compiled step one hook can't do both: split it in two."
                )
            if now is not None:
                held.append(np.array(now._array))
        return held + [np.array(host_tensors[state.mirror]._array) for state in self.computed()]

    def _refuse_marks(self, tensor: Any, state: MirrorState) -> None:
        """Raise if the hook has left something on a tensor besides values: on a copy it would be lost."""
        what = ""
        if vars(tensor):
            what = f"sets an attribute of one ({', '.join(vars(tensor))})"
        elif has_marks(tensor):
            what = "registers a hook on one, or has it retain its gradient"
        elif tensor._requires_grad is not state.position.requires_grad:
            what = "sets requires_grad of one"
        if what:
            raise CompileError(
                f"undertow.compile: {self.placed} runs on the host, where it is shown copies of tensors, and {what}, which "
                "would be lost. Do that in a statement of its own."
            )

    def refuse_writes(self, after: list[Any], before: list[Any], why: str) -> None:
        """Raise if tensors hold other values than before."""
        for array, was in zip(after, before, strict=True):
            if not _equal(np.asarray(array), np.asarray(was)):
                raise CompileError(
                    f"undertow.compile: {self.placed} wrote into a tensor of shape {list(array.shape)}. {why}"
                )

    def device(self) -> Device | None:
        """Where new tensors are to be. While the program runs the device is busy."""
        return None


class _Shown:
    """What is shown for the parts of a call's arguments."""

    def __init__(self, call: HostCall, host_tensors: dict[HostMirror, Any], values: list[Any]) -> None:
        self._call, self._host_tensors, self._values = call, host_tensors, values
        self._begun: set[ContainerState] = set()

    def __call__(self, part: Any) -> Any:
        if type(part) is MirrorState:
            return self._host_tensors[part.mirror]
        if type(part) is _ShownNumber:
            return part.kind(self._values[part.place])
        if type(part) is ContainerState:
            return self._container(part)
        if type(part) is _Contents:
            return [*map(self, part)]
        if type(part) is Parts:
            return make(*map(self, part))
        return part.value if type(part) is Kept else part

    def _container(self, contents: ContainerState) -> Any:
        if contents not in self._begun:
            self._begun.add(contents)
            contents.container.prepare()
            contents.container.show(contents.each(self), contents.changed, self._call.placed)
        return contents.container.live


def tensors_of(holder: Any) -> Iterator[Any]:
    """Return the tensors that a module or an optimizer keeps."""
    if isinstance(holder, Module):
        for each in (*holder.parameters(), *holder.buffers()):
            yield from tensors_of(each)
    elif isinstance(holder, Optimizer):
        for group in holder.param_groups:
            yield from group["params"]
        for kept in holder.state.values():
            yield from (each for each in leaves(kept) if isinstance(each, TensorCore))
    elif is_sparse(holder):
        yield from parts_of_sparse(holder)[:2]
    elif isinstance(holder, TensorCore):
        yield holder


class DeferredCallback(HostCall):
    """A call that is made after the program."""

    captures_all = False  # as long as the results wait, tensors from outside are what they were before the step
    begins = False  # whether it is made before the program after all

    def __init__(self, *given: Any) -> None:
        self._device = running_trace().device
        self._before: list[Any] = []  # what tensors held
        super().__init__(*given)

    def device(self) -> Device:
        return self._device

    def before_hook(self, host_tensors: dict[HostMirror, Any]) -> None:
        if self.may_write:
            self._before = self._held(host_tensors)

    def run(self) -> None:
        """Call the hook with the values of this step."""
        values = [array.buffer.value for array in self.captured]
        try:
            _, answer, after = self.call(values)
        except Exception as error:
            self.error = error
            raise
        self.done = True
        if answer is not None:
            raise CompileError(
                f"undertow.compile: {self.placed} runs after the program, and returned a value, which comes too late"
            )
        if self.may_write:
            self.refuse_writes(
                after,
                self._before,
                "It runs after the program, where that comes too late: write in a statement of its own",
            )


class OrderedCallback(HostCall):
    """A call that the program stops for."""

    threads: set[int] = set()  # on which such calls are under way; see `uncompiled`

    values: Sequence[Any] = ()  # what was captured, during a call

    def __init__(self, hook: Any, args: Any, *more: Any) -> None:
        super().__init__(hook, args, *more)
        self.given = apart(args)

    def look_at(self, tensor: Any) -> int:
        """Which captured value a tensor of the trace has."""
        place = self._seen(tensor).place
        assert place is not None
        return place

    def place(self, changed: int | None, writes: bool, raised: list[BaseException], elsewhere: bool = False) -> Any:
        """Put the call into the program; what comes back in the place of the hook's result.

        A hook that writes may do so elsewhere only: not into what it is given.
        """
        given = None if changed is None else self.given[changed]
        wanted = [self.captured[self.look_at(each)] for each in leaves(given) if isinstance(each, TensorCore)]
        targets: list[DeviceArray] = []
        self.may_write = writes
        if writes:
            for state in self.own():
                if state.grad is not None:
                    mirror = state.grad.mirror
                    mirror.has_aliases = running_trace().placer.keeps_alias(mirror.kept, self._mirrors.over())
                targets += [each.mirror.kept._array for each in (state, state.grad) if each is not None]
            targets += [] if elsewhere else [state.mirror.kept._array for state in self.computed()]
        mirrors: list[HostMirror] = []
        specs = [_spec(each) for each in (*wanted, *targets)]
        places = [state.place for state in self.computed() if state.place is not None]

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            if elsewhere:
                self.refuse_writes(after[len(targets) :], [self.values[place] for place in places], _NO_WAY_BACK)
                del after[len(targets) :]
            tensors = (
                [] if changed is None else self._fitting(args[changed] if answer is None else answer, args[changed])
            )
            for mirror, tensor, spec in zip(mirrors, tensors, specs):
                if type(tensor._array) is np.ndarray and tensor._array.dtype == spec.dtype:
                    mirror.replace_by(tensor)
            for state in self.computed():
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
        """Return the call of a pack hook: what it gives waits on the host."""
        kept = Kept(_spec(saved))

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            kept.value = answer
            return []

        self._call_in_program(results, [], raised)
        return kept

    def give(self, kept: Kept, raised: list[BaseException]) -> Any:
        """Return the call of an unpack hook: it gives a tensor like the one that was saved."""
        spec = kept.spec

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            if not isinstance(answer, TensorCore):
                raise TypeError(
                    f"Output of saved tensor unpack_hook expected to be a Tensor; it returned {type(answer)}"
                )
            if answer.shape != spec.shape:
                raise CompileError(
                    f"undertow.compile: {self.placed} gives a tensor of shape {list(answer.shape)} for one that was saved "
                    f"with shape {list(spec.shape)}; a program can't change its shape while it runs"
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
            if raised or not decisions.hold(asked):  # eager code would not have come here; the results are thrown away
                return nothing
            try:
                self.values = list(values)
                with uncompiled():
                    called = self.call(self.values)
                    given = [np.asarray(each) for each in results(*called)] if self.is_made(values) else nothing
                self.done, self.answer = True, called[1]
                self._mirrors.answered.append(self)
                return given
            except BaseException as error:
                self.error = error
                raised.append(error)
                return nothing
            finally:
                self.values = ()

        values = io_callback(on_host, spec, *operands, *[array.value for array in self.captured], ordered=True)
        self.captured.clear()  # or they would be results of the program
        self.given = ()
        return values

    def _fitting(self, answer: Any, given: Any) -> list[Any]:
        """Return the tensors that a hook returned, which have to look like those that it was given."""
        if isinstance(given, tuple) and isinstance(answer, TensorCore):
            answer = (answer,)
        wanted = [each for each in leaves(given) if isinstance(each, TensorCore)]
        found = [each for each in leaves(answer) if isinstance(each, TensorCore)]
        if len(wanted) != len(found) or any(a.shape != b.shape for a, b in zip(wanted, found)):
            raise CompileError(
                f"undertow.compile: {self.placed} runs on the host, and returned other tensors than it was given in number "
                "or shape; a program can't change its shape while it runs"
            )
        return found


class _ClosedStream:
    """In the place of a random stream, while a call on the host must not draw from it."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed

    def __getattr__(self, name: str) -> Any:
        raise CompileError(
            f"undertow.compile: {self._placed} runs on the host and uses random numbers, and the step draws others after "
            "its turn: those are drawn already. Draw in the step, or before it."
        )


@contextmanager
def _no_draws(placed: Placed) -> Iterator[None]:
    """Refuse random draws: they would come after those that eager mode makes later."""
    streams = [(generator, generator.stream) for generator in alive]
    for generator, _ in streams:
        generator.stream = _ClosedStream(placed)  # type: ignore[assignment]
    try:
        yield
    finally:
        for generator, stream in streams:
            generator.stream = stream


@contextmanager
def _no_packing(placed: Placed) -> Iterator[None]:
    """Refuse operations that save tensors: hooks on those would be called in another order than in eager mode."""

    def refuse(saved: Any) -> Any:
        raise CompileError(
            f"undertow.compile: {placed} runs on the host and computes with tensors that require gradients, inside "
            "saved_tensors_hooks: their hooks can't be called there. Compute under torch.no_grad(), or with detach()."
        )

    before, local.modes.saved_hooks = local.modes.saved_hooks, [(refuse, refuse, False)]
    try:
        yield
    finally:
        local.modes.saved_hooks = before


@contextmanager
def uncompiled() -> Iterator[None]:
    """On this thread, what is compiled runs as it was written."""
    thread = threading.get_ident()
    OrderedCallback.threads.add(thread)
    try:
        yield
    finally:
        OrderedCallback.threads.discard(thread)


def _write_if_other(tensor: Any, value: Any) -> None:
    if not _equal(np.asarray(tensor._array), value):
        with set_grad_enabled(False):
            tensor.copy_(wrap(value))


def _equal(one: Any, other: Any) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fcV")  # "V": those of ml_dtypes


def _tensors_in(given: Any) -> list[Any]:
    return [each for each in leaves(given) if isinstance(each, TensorCore)]


def _gradient_of(tensor: Any) -> Any:
    return None if tensor._meta is None else tensor._meta.grad


def _spec(array: DeviceArray) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
