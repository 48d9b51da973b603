"""The calls on the host around a program's call: hooks and statements of the step, in their order."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from undertow._src.base import tracer
from undertow._src.compile.callbacks.hook_placement import HookPlacer
from undertow._src.compile.callbacks.host_calls import HostCall, UnfitAnswer
from undertow._src.compile.callbacks.replay import Interrupted, Replay
from undertow._src.compile.effects.objects import held_by_variable
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import put_back
from undertow._src.compile.splitting.host_statements import Statement
from undertow._src.compile.splitting.statement_probes import ProbedCode
from undertow._src.compile.tracing.arguments import Handed
from undertow._src.compile.tracing.records import ChangedRecord

if TYPE_CHECKING:
    from undertow._src.distributed.rank_programs import Agreement


class ProgramCallbacks:
    """The calls on the host that a trace has placed."""

    def __init__(
        self, placer: HookPlacer, streams: list[Any], handed: Handed, early: list[tuple[Any, Any]], code: ProbedCode,
        agreement: Agreement | None = None,
    ) -> None:  # fmt: skip
        self.host_calls, self.placed = placer.calls.host_calls, placer.calls.placed
        self.before, self.after = placer.calls.begins, placer.calls.turns  # the program
        # Whether hooks that may raise run after the program; and the memories in which they find earlier values.
        self.may_raise_after = any(not call.is_certain for call in placer.calls.later)
        self.shown = placer.calls.shown
        self._prefetched = [array for call in placer.calls.later for array in call.prefetch()]
        self._fetched: Fetched | None = None
        self.interrupt_program, self._raised = placer.calls.has_inside, placer.calls.raised
        self.communicates, self._calls = placer.calls.has_collectives, placer.calls
        self.agreement = agreement  # of ranks, on the step's branches
        self.mirrors, self._returned = placer.mirrors, placer.calls.returned
        self._handed, self._early, self._code = handed, early, code
        self._streams = streams  # from which the step draws
        self._stream_states: list[tuple[Any, Any]] = []  # before the call
        self._added: list[tuple[Any, Any]] = []  # entries that are put in place early, for their order
        self._context = Context()  # of this call's hooks inside the program
        self._orders: list[tuple[Any, list[Any]]] = []  # of the mappings to which they were added
        for call in self.host_calls:
            call.streams = streams

    def begin(self) -> None:
        """Begin a call of the program, if there are calls on the host."""
        self._forget_calls()
        self._stream_states = [(stream, stream.get_state()) for stream in self._streams]
        self._added = [(holder, key) for holder, key in self._early if key not in holder]
        for holder, key in self._added:  # entries are in the order in which eager code adds them
            holder[key] = None

    def _forget_calls(self) -> None:
        for call in self.host_calls:
            call.begin()

    def run_before(self) -> None:
        """Make the calls that come before the program, and give those inside it the variables of this context."""
        for call in self.before:
            call.run()
        if self.interrupt_program:
            self._context = copy_context()
            for each in self.host_calls:
                each.context = self._context

    def wait(self, results: list[Any]) -> None:
        """Wait for the program if the step measures time or has callbacks inside; raise the error of such a callback."""
        if self.before:
            jax.block_until_ready(results)  # the step measures how long it takes
        if self.interrupt_program:
            jax.block_until_ready(results)
            jax.effects_barrier()
            for variable, value in self._context.items():
                if held_by_variable(variable) is not value:
                    variable.set(value)  # as a hook has
            if self._raised:
                raise self._raised.pop()

    @cached_property
    def are_notes(self) -> bool:
        """Whether there are calls after the program, which all just note numbers: they find no state that it leaves."""
        return bool(self._prefetched) and all(call.is_note for call in self.after)

    def prefetch(self) -> None:
        """Start to copy the numbers that calls after the program read to the host, all of them together."""
        if self._fetched is None:
            self._fetched = Fetched([array.buffer.value for array in self._prefetched])

    def run_after(self) -> None:
        """Make the calls that come after the program."""
        if self._prefetched:
            self.prefetch()
            fetched, self._fetched = self._fetched, None
            assert fetched is not None
            fetched.wait()
        if self.after:
            try:
                for call in self.after:
                    call.run()
            except BaseException as error:
                if self._calls.abandon is not None:
                    self._calls.abandon(error)
                raise
            try:
                self._handed.refuse_changes(self.mirrors.changed_containers())
            except ChangedRecord as error:  # too late to trace again: the calls have been made
                raise CompileError(str(error)) from None
        if self.mirrors.tensors:
            self.mirrors.refuse_writes()

    def result_of(self, result: Any) -> Any:
        """Return the step's result: a statement on the host may compute it from the program's results."""
        return result if self._returned is None else self._returned.of(result)

    # --- calls that raise

    def refuse_error(self, error: BaseException) -> None:
        """Raise a CompileError for an error in a call that was certain not to raise: the step has already ended."""
        for call in self.host_calls:
            if call.outcome.error is error:
                raise CompileError(
                    f"undertow.compile: {call.placed} has raised {error!r}. Its objects are of other types than when the "
                    "step was compiled, so the step could not stop there: it was completed"
                ) from error

    def interrupt(self, error: Exception) -> None:
        """Raise Interrupted if `replay` can reproduce what eager mode leaves after an error."""
        self._orders = [(holder, [*holder]) for holder, _ in self._added]
        for holder, key in self._added:
            del holder[key]
        of_callback = any(call.outcome.error is error for call in self.host_calls) and not isinstance(
            error, CompileError
        )
        is_known = of_callback or isinstance(error, UnfitAnswer)
        if self.communicates:  # other ranks do not repeat theirs
            before = [call for call in self.host_calls if id(call) in self._calls.before_collectives]
            is_known = of_callback and any(call.outcome.error is error for call in before)
        if not is_known or any(map(_wrote, self.host_calls)):
            raising = [call.hook for call in self.host_calls if call.outcome.error is error]
            self._forget_calls()
            for each in raising:
                if isinstance(each, Statement):
                    each.refuse_handled(error)
        else:
            raise Interrupted from None

    def replay(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the step eagerly, on this rank alone, after a call on the host has raised."""
        tracer.is_alone = self.communicates
        for stream, state in self._stream_states:
            stream.set_state(state)
        try:
            return Replay(self.host_calls, self._code).run(function, args, kwargs)
        finally:
            tracer.is_alone = False
            for holder, order in self._orders:
                put_back(holder, {key: holder[key] for key in order if key in holder} | holder)
            self._forget_calls()


class Fetched:
    """One-element JAX arrays that are copied to the host in one transfer for each dtype; each then knows its number."""

    def __init__(self, values: list[Any]) -> None:
        self._groups: dict[Any, list[Any]] = {}
        for value in values:
            if hasattr(value, "_npy_value"):  # where JAX keeps a copy on the host
                self._groups.setdefault(value.dtype, []).append(value)
            else:
                value.copy_to_host_async()
        self._together = [_side_by_side(*group) for group in self._groups.values()]
        for each in self._together:
            each.copy_to_host_async()

    def wait(self) -> None:
        """Wait for the numbers."""
        for together, group in zip(self._together, self._groups.values(), strict=True):
            for value, number in zip(group, np.asarray(together), strict=True):
                own = np.array(number, value.dtype).reshape(value.shape)
                own.flags.writeable = False
                value._npy_value = own


@jax.jit
def _side_by_side(*values: Any) -> Any:
    return jax.numpy.stack([value.reshape(()) for value in values])


def _wrote(call: HostCall) -> bool:
    """Return whether a statement may have written to tensors of the program, which a replay can't repeat."""
    return call.outcome.done and call.may_write and isinstance(call.hook, Statement)
