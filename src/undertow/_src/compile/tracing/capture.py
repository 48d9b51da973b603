"""Capture: run a step once with unknown values, and record what it computes, depends on and leaves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer, Compiling, NeedsValue, TraceAborted
from undertow._src.arrays.jax import layout as jax_layout
from undertow._src.arrays.target import traced_for
from undertow._src.base.modes import local
from undertow._src.compile.callbacks.hook_placement import HookPlacer
from undertow._src.compile.callbacks.host_reachable_tensors import HostFinds
from undertow._src.compile.callbacks.program_callbacks import ProgramCallbacks
from undertow._src.compile.effects import purity
from undertow._src.compile.errors import OF_JAX, CompileError, explained
from undertow._src.compile.guards.argument_guard import ArgumentGuard, WayGuard
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.hook_reads_guard import ReadGuard
from undertow._src.compile.guards.input_checks import Check, InputValueGuard
from undertow._src.compile.guards.places import place_at
from undertow._src.compile.guards.rollback import Rollback, TensorMarks
from undertow._src.compile.guards.scalar_guard import AnswerGuard
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.guards.state_guards import StateGuards
from undertow._src.compile.guards.walking import named_by
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.splitting.statement_probes import ProbedCode
from undertow._src.compile.tracing.arguments import Handed, refuse_overlaps
from undertow._src.compile.tracing.code_coverage import Recording, recording
from undertow._src.compile.tracing.counters import from_places
from undertow._src.compile.tracing.data_dependent_branches import Answer, Decisions, Hints, Line, Unverified, part_for
from undertow._src.compile.tracing.left_state import LeftState, find_left_state
from undertow._src.compile.tracing.numpy_memory import refuse_shared
from undertow._src.compile.tracing.records import ChangedRecord, records_together
from undertow._src.compile.tracing.results import forget_cached, tensors_in
from undertow._src.compile.tracing.sparse_parts import together
from undertow._src.compile.tracing.step_inputs import Call, StepInputs, find_inputs
from undertow._src.compile.tracing.symbolic_scalars import (
    ScalarBecameConstant,
    ScalarGuards,
    baked,
    inputs,
)
from undertow._src.compile.tracing.trace_state import Trace
from undertow._src.compile.tracing.unread_calls import CodeWatch, UnreadCalls, unread_among
from undertow._src.overrides.torch_function import DisableTorchFunctionSubclass


@dataclass(frozen=True, eq=False)
class Capture:
    """A step that ran once: what it computes, what it depends on, and what it leaves."""

    jaxpr: Any  # the closed jaxpr
    outputs: list[Buffer]  # the buffers that it writes or makes, in the order of the outputs
    trace: Trace
    marks: TensorMarks
    inputs: StepInputs
    left: LeftState
    callbacks: ProgramCallbacks
    finds: HostFinds  # the tensors that those find in Python's places
    decisions: Decisions
    guards: list[Guard]  # on everything but the buffers of tensors
    reads: ReadGuard
    answers: AnswerGuard
    checks: list[Check]
    bumps: list[tuple[Any, int]]  # by how much each storage's version rises
    next_numbers: DeviceArray | None  # the numbers of the next call, unless an option changes
    decided_lines: set[Line]  # lines that need values, which are guessed
    selected_lines: set[Line]  # lines that select rows by masks and need the exact rows
    splitter: EffectSplitter | None
    cuts: Any = None  # how results are cut to the true sizes

    @property
    def may_come_to_nothing(self) -> bool:
        """Return whether a call's results may be discarded: because a hook raises, a rank fails, or a guess is wrong."""
        callbacks = self.callbacks
        return bool(
            callbacks.may_raise_after or callbacks.interrupt_program or callbacks.communicates or self.decisions.answers
        )

    def undo(self) -> None:
        """Restore tensors to their state before the trace."""
        self.trace.undo()
        self.marks.restore()

    def finish(self) -> None:
        """End the trace: buffers have real values again."""
        self.trace.finish()
        self.marks.restore_versions()
        self.marks.restore_flags()


def capture(call: Call, plan: Plan) -> Capture:
    """Run a step once with unknown values. Raise Retrace if the trace has added to the plan."""
    return _Capturing(call, plan).run()


class _Capturing:
    """One trace of a step, under way."""

    def __init__(self, call: Call, plan: Plan) -> None:
        self.plan, self.splitter = plan, plan.splitter
        with DisableTorchFunctionSubclass():  # reading a tensor for the message is not part of the step
            self.inputs, self.call = found = find_inputs(call, plan)
        inputs, state = found[0], found[0].state
        self.trace = trace = Trace(inputs.device)
        self.placer = placer = HookPlacer(plan, inputs.registrations, state.seen)
        trace.placer, trace.state, trace.schedules = placer, state, inputs.schedules
        trace.given, trace.lengths = inputs.given, plan.lengths
        trace.before, placer.scope.entry = inputs.registrations.reached(), inputs.entry
        placer.mirrors.expect(inputs.given.own())
        placer.scope.gradients = {*map(id, inputs.given.gradients())}
        placer.scope.states = {id(optimizer.state) for optimizer in state.optimizers}
        placer.scope.groups = {id(group) for optimizer in state.optimizers for group in optimizer.param_groups}
        self.numbers, self.marks = inputs.options.values(), TensorMarks(state.tensors, inputs.given.tensors)
        placer.mirrors.marks = self.marks
        trace.decisions = self.decisions = Decisions(plan.answers, plan.hints)
        self.outputs: list[Buffer] = []
        self.next_numbers: DeviceArray | None = None
        self.failure: Exception | None = None  # a trace with guesses
        self.handed: Handed
        self._watch = CodeWatch()
        self.left: LeftState

    def run(self) -> Capture:
        """Trace the step, and put back all that it changed."""
        inputs, trace, placer = self.inputs, self.trace, self.placer
        renewed = inputs.given.renewed
        roll_back = Rollback(
            inputs.entry, inputs.options, inputs.counters, renewed, inputs.schedules, placer.in_program.stores
        )  # fmt: skip
        try:
            closed = self._trace()
            if self.failure is not None:
                self._verify(closed)
            elif self.decisions.are_guessed:
                self._check_guesses(closed)
            self._read_unread()
            asked = ScalarGuards(inputs.scalars.asked, self.numbers + inputs.options.extra)
            roll_back()
            bumps = self.marks.bumps()
            callbacks = self._callbacks()
            reads = self._reads()
            guards = self._guards(reads)
            self.decisions.finish()
        except BaseException as raised:
            error = trace.stopped[0] if trace.stopped and isinstance(raised, Exception) else raised
            if raised is self.failure or isinstance(raised, Retrace):
                error = raised
            with ExitStack() as steps:  # every one, the last one first
                steps.callback(self.marks.restore)
                steps.callback(roll_back)
                steps.callback(trace.undo)
                steps.callback(forget_cached, inputs.state.caches, trace.memory.is_made)
            self._raise_instead(error)
            if error is raised:
                raise
            raise error from None
        return Capture(
            closed, self.outputs, trace, self.marks, inputs, self.left, callbacks, placer.finds, self.decisions, guards,
            reads, AnswerGuard(asked, inputs.options, inputs.schedules), trace.input_checks.checks, bumps,
            self.next_numbers, self.plan.decided, self.plan.selected, self.splitter,
        )  # fmt: skip

    # --- the step

    def _trace(self) -> Any:
        """Return the step as a jaxpr."""
        found, trace, placer = self.inputs, self.trace, self.placer
        tensors = [*found.given.tensors, *found.state.tensors]
        if Compiling.current is not None:
            Compiling.current.take(tensors)
        for tensor in tensors:
            if tensor._view is None:
                trace.memory.adopt_one(tensor)
        known = [buffer for buffer, _, _ in trace.memory.buffers.values()]
        specs = [jax.ShapeDtypeStruct(buffer.value.shape, buffer.value.dtype) for buffer in known]

        def body(options: Any, *values: Any) -> list[Any]:
            trace.of_jax = options._trace
            try:
                return step(options, *values)
            except Exception as error:
                if isinstance(error, (Retrace, ScalarBecameConstant, ChangedRecord)) or not self.decisions.are_guessed:
                    raise
                stopped: Any = trace.stopped[0] if trace.stopped else error
                if isinstance(stopped, NeedsValue):
                    self._way_on(stopped)
                self.failure = stopped  # perhaps the step does not get here with other guesses
                return self.decisions.operands()

        def step(options: Any, *values: Any) -> list[Any]:
            for buffer, value in zip(known, values, strict=True):
                buffer.value = value
            for tensor in tensors:
                trace.memory.adopt_one(tensor)
            found.given.tell(trace.input_checks, trace.memory.as_it_was)
            originals = {id(tensor): trace.memory.as_it_was(array) for tensor, array in trace.memory.originals}
            for tensor in found.state.tensors:
                trace.input_checks.captured(tensor, tensor._array, originals.get(id(tensor)))
            as_inputs = inputs(self.numbers, options, found.scalars, len(found.counters.places))
            if self.plan.lengths is not None:
                first = len(as_inputs) - len(found.counters.places)
                self.plan.lengths.show(as_inputs[first:], first, found.scalars, self.numbers)
            given = self._show(as_inputs)
            placer.scope.stand_ins = found.counters.shown() | found.given.renewed.stand_ins()
            args, kwargs = self.call.args, self.call.kwargs
            args, kwargs = records_together(together(from_places((args, kwargs), self.plan.numbers)))
            self.handed = Handed((args, [*kwargs.values()]), self.plan.kinds)
            trace.collectives.is_step = True
            result = self._run(self.call.function, args, kwargs)
            if trace.stopped:  # the step's own code handled the error
                raise trace.stopped[0]
            trace.collectives.finish()
            on_host = [effect.target for _, effects in placer.hosted for effect in effects.effects]
            self.handed.refuse_changes(on_host, placer.changed.targets())
            found.guards.graphs.refuse_changes()
            found.guards.hooks.refuse_changes()
            shown = placer.mirrors.aliases()
            placer.finish()
            if self.splitter is not None:
                placer.refuse_other_turns(self.splitter.rest)
            self._take_back(as_inputs, given)
            self.left = find_left_state(result, found, self.plan, placer, trace, self.handed)
            trace.memory.refuse_old_aliases(tensors_in(self.left.parts(), self.left.known), shown)
            self.outputs += [buffer for buffer, _, _ in trace.memory.buffers.values() if buffer.writes]
            self.outputs += trace.living()
            placer.settle_aliases(self.outputs)
            trace.memory.numpy_memory.refuse_later_writes()
            refuse_overlaps(*trace.memory.host_memories())
            own = [] if self.splitter is None else [self.splitter.rest]
            refuse_shared([*own, *[its for _, its in placer.in_program.traced]], *trace.memory.host_memories())
            found.given.refuse_overlaps(trace.memory.buffers)
            return [buffer.value for buffer in self.outputs]

        with trace, found.registrations, self._code, found.schedules.watched(trace):
            closed = jax.make_jaxpr(body)(jax.ShapeDtypeStruct((len(self.numbers),), np.float64), *specs)
        if not self.plan.plain_numbers and baked(closed.jaxpr):
            raise ScalarBecameConstant
        trace.memory.inputs = dict(zip(map(id, closed.jaxpr.invars), ["numbers", *known])) | trace.memory.inputs
        return closed

    @property
    def _code(self) -> ProbedCode:
        return ProbedCode([]) if self.splitter is None else self.splitter.code

    def _run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        records = local.modes.grad_enabled
        try:
            with self._watch, self._recorded() as self.trace.recorder:
                result = function(*args, **kwargs)
        except Exception as error:
            if self.splitter is not None and not isinstance(error, TraceAborted):
                self.placer.refuse_other_turns(self.splitter.rest)  # perhaps a hook should fill a list
            raise
        if local.modes.grad_enabled is not records:
            raise CompileError(
                f"undertow.compile: the step returns with gradients switched {'off' if records else 'on'}, but a program "
                "can't change the grad mode of its caller. Use `with torch.no_grad():` inside the step, or switch "
                "outside of it."
            )
        return self.placer.result_for(result)

    def _recorded(self) -> AbstractContextManager[Recording | UnreadCalls | None]:
        """Return a block that notes what runs."""
        if self.splitter is not None and self.splitter.functions.unread:
            return UnreadCalls(self.splitter, self.plan)
        return recording(self.splitter, self.inputs.state)

    def _read_unread(self) -> None:
        """Raise Retrace if functions ran that had not been read, so that the next trace reads them."""
        splitter = self.splitter
        if splitter is not None and splitter.reading.is_complete:
            recorder = self.trace.recorder
            codes = [*self._watch.codes, *(recorder.codes() if isinstance(recorder, Recording) else ())]
            splitter.functions.unread = unread_among(codes, splitter, self.inputs.state)
            if splitter.functions.unread:
                raise Retrace

    def _show(self, as_inputs: list[Any]) -> list[Any]:
        """Put the program's inputs where the step finds them; return the stand-ins for the numbers among them."""
        options, counters, given = self.inputs.options, self.inputs.counters, self.inputs.given
        if self.plan.plain_numbers:  # all of them are compared by value
            self.numbers[:] = map(float, as_inputs)
        else:
            options.put(as_inputs)
        options.show()
        shown = options.in_groups() + as_inputs[len(options.places) :]
        self.trace.counts = options.as_counts(as_inputs)
        given.renewed.show(given.stand_in)
        counters.show(as_inputs[len(as_inputs) - len(counters.places) :])
        return shown

    def _take_back(self, as_inputs: list[Any], shown: list[Any]) -> None:
        """Record how the step changed its numbers, and restore the old ones."""
        options, counters, counts = self.inputs.options, self.inputs.counters, self.trace.counts
        self.inputs.schedules.take_back()
        self.trace.memory.settle_memories()
        options.note_changes(shown, counts)
        options.put(self.numbers)
        if options.counted and not counters.places:
            # The next call probably has these: then nothing has to be sent to the device.
            after = options.after(as_inputs, counts)
            self.next_numbers = DeviceArray(jax.numpy.stack([number.traced for number in after]))
        self.inputs.given.renewed.take_back()
        counters.take_back()

    # --- what a program needs of it

    def _callbacks(self) -> ProgramCallbacks:
        """Return the calls on the host around calls of the program."""
        return ProgramCallbacks(
            self.placer, [*self.trace.host_inputs.streams.values()], self.handed, self.left.early, self._code,
            self.trace.collectives.agreement,
        )  # fmt: skip

    def _reads(self) -> ReadGuard:
        """Return the guard on what hooks read of objects."""
        shown, watches = self.inputs.given.renewed.shown(), self.inputs.entry.watches
        reads = [
            read for read in self.placer.in_program.reads if id(read.value) not in shown and not watches(read.owner)
        ]
        return ReadGuard(reads + self.left.unchanged)

    def _guards(self, reads: ReadGuard) -> list[Guard]:
        """Return the guards of the program, the most likely reasons to compile again first."""
        inputs, held = self.inputs, self.trace.input_checks.held
        renewed = inputs.given.renewed
        self.trace.input_checks.finish()
        inputs.guards.note_results()
        return [
            *([renewed] if renewed.places else ()),
            ArgumentGuard(inputs.given),
            *inputs.guards,
            inputs.options,
            *self._hook_guards(),
            *([inputs.facts] if inputs.facts.names else ()),
            *([reads] if reads else ()),
            *([InputValueGuard(held)] if held else ()),
            *([WayGuard(inputs.given)] if inputs.given.graphs.untaken else ()),
        ]

    def _hook_guards(self) -> list[Guard]:
        """Return the guards on the code of hooks in the program, and on the names and classes that it uses."""
        traced = self.placer.in_program.traced
        effects = [each for _, each in traced]
        functions = [function for each in effects for function in each.functions]
        objects = [*[hook for hook, _ in traced], *[found for each in effects for found in each.objects]]
        names = named_by(functions, [name for each in effects for name in each.names], objects, self.inputs.state)
        if not names.functions:
            return []
        guards = StateGuards(Snapshot(names))
        guards.ignore({place_at(holder, key) for holder, key, _ in self.left.entries if type(key) is str})
        guards.ignore(self.placer.changed_on_host())
        return [*guards]

    # --- traces that fail, or guess

    def _raise_instead(self, error: BaseException) -> None:
        """After a failed trace, raise Retrace if another may succeed, or a CompileError that explains it; else return."""
        plan = self.plan
        if isinstance(error, NeedsValue):
            self._way_on(error)
        failed = isinstance(error, Exception) and not isinstance(error, (Retrace, ScalarBecameConstant, ChangedRecord))
        lengths = [] if plan.lengths is None else plan.lengths.places
        if len(self.inputs.counters.places) > len(lengths) and failed:
            plan.counts = False  # perhaps this is the cause
            plan.counters.clear()
            raise Retrace from None
        if isinstance(error, (NeedsValue, *OF_JAX)):
            raise explained(error) from None
        if isinstance(error, CompileError):
            raise CompileError(str(error)) from None  # without JAX's frames
        error.__notes__ = [note for note in getattr(error, "__notes__", ()) if "JAX" not in note]

    def _way_on(self, error: NeedsValue) -> None:
        """Raise Retrace if another trace can get past the needed value, by moving code to the host or by a guess."""
        plan = self.plan
        line = error.line if error.line not in plan.decided else None
        # Code of a package seldom only prints a value. A guess takes one more trace, moving code takes several.
        guesses = line is not None and purity.is_installed(line[0])
        if not guesses and plan.splitter is not None and plan.splitter.move_what_needed(error):
            raise Retrace from None
        if line is not None:
            plan.decided.add(line)
            raise Retrace from None

    def _verify(self, closed: Any) -> None:
        """Verify the guesses of a failed trace. If they are right, the failure is in the step itself."""
        assert self.failure is not None
        if self.trace.collectives.has_calls:  # which only all ranks can run together
            self._try_other_way()
            raise self.failure
        answers, hints = self._answers_of(closed.jaxpr, closed.consts)
        right = answers == self.decisions.answers
        if not right or isinstance(self.failure, Unverified):
            self.plan.answers, self.plan.hints = answers, hints
            raise Retrace
        raise self.failure

    def _try_other_way(self) -> None:
        """Raise Retrace with the opposite of a guess: the last one, or the first in a loop without end."""
        endless = isinstance(self.failure, Unverified)
        hints = self.decisions.inverted(first=endless)
        if hints is not None:
            self.plan.hints = hints
            raise Retrace
        if endless:
            where = self.decisions.listed()[-1][0]
            self.failure = CompileError(
                f"undertow.compile: {where}: the step communicates, and then needs a value to go on that can't be guessed. "
                "Use torch.where, or compile the parts before and after separately."
            )

    def _check_guesses(self, closed: Any) -> None:
        """Raise Retrace if guesses are wrong; check those that a small part of the program computes."""
        places = {id(buffer): place for place, buffer in enumerate(self.outputs)}
        asked = [closed.jaxpr.outvars[places[id(array.buffer)]] for array in self.decisions.asked]
        part = part_for(closed.jaxpr, asked)
        if part is not None:
            answers, hints = self._answers_of(part, closed.consts)
            if answers != self.decisions.answers:
                self.plan.answers, self.plan.hints = answers, hints
                raise Retrace

    def _answers_of(self, jaxpr: Any, consts: Any) -> tuple[list[Answer], Hints]:
        """Return the true outcomes in the call that is traced, given a program that computes the values."""
        held = [
            value if buffer.host is None else buffer.host for buffer, value, _ in self.trace.memory.buffers.values()
        ]
        values = [np.array(self.numbers, np.float64), *held[: len(jaxpr.invars) - 1]]
        self.decisions.evaluating = True

        def run(*values: Any) -> list[Any]:
            with traced_for(self.inputs.jax_device.platform):
                return jax_layout.evaluate(jaxpr, consts, *values)

        try:
            return self.decisions.verified(jax.block_until_ready(jax.jit(run)(*values)))
        finally:
            self.decisions.evaluating = False
