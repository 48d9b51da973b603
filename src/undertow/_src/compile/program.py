"""A step as one XLA program.

A call gathers the inputs, runs the program, puts the outputs where the step leaves them, and runs the callbacks.

NOTE later. XLA may still compute when a call returns, on the CPU too, where large programs run in separate threads. The
results are then unfinished arrays, and reading one waits for it. So the memory of NumPy's arrays, to which any code may
write after the call, is copied before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Deferred
from undertow._src.compile.callbacks.host_calls import Placed
from undertow._src.compile.first_state import FirstState, next_first_state
from undertow._src.compile.guards.guard import Guard, GuardList, failure
from undertow._src.compile.guards.places import place_at
from undertow._src.compile.lowering.lower import lower
from undertow._src.compile.lowering.lowered import Lowered
from undertow._src.compile.lowering.two_sizes import capture_padded, refuse_passed_on
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.program_inputs import ProgramInputs
from undertow._src.compile.program_outputs import ProgramOutputs
from undertow._src.compile.tracing.capture import Capture, capture
from undertow._src.compile.tracing.data_dependent_branches import Answer, Mispredicted, RunAgain
from undertow._src.compile.tracing.step_inputs import Call
from undertow._src.random.generators import alive
from undertow._src.types.devices import cpu


@dataclass(frozen=True, eq=False)
class Summary:
    """What `explain` says about a program."""

    operations: int
    captured: list[DeviceArray]
    written: int
    numbers: int
    draws: int
    runs_once: bool
    placed: list[Placed]
    trace_seconds: float


class Program:
    """One compiled variant of a step: guards, inputs, a jitted function, outputs, and callbacks around it."""

    turn = used = 0  # when it was made and last used
    first: FirstState | None = None  # state made before its first call; eager mode makes it in the call

    def __init__(self, captured: Capture, lowered: Lowered, trace_seconds: float) -> None:
        inputs = captured.inputs
        self.guards: list[Guard] = [  # everything that the program depends on
            *captured.guards,
            *lowered.guards,
            captured.answers,  # last, because a call continues with the numbers that this one saw
        ]
        self.guards_hold = GuardList(self.guards).hold  # for the tensors of a call
        self._input_checks = captured.checks
        self.jitted = lowered.jitted
        self.inputs = ProgramInputs(captured, lowered)
        self.outputs = ProgramOutputs(captured, lowered, self.inputs.numbers)
        self.callbacks, self._cuts = captured.callbacks, captured.cuts
        self.decisions, self._decided = captured.decisions, lowered.outputs.decided
        self._schedules, self._counters = inputs.schedules, inputs.counters
        self._places, self._reads = inputs.guards.places, captured.reads
        self._decided_lines, self._selected_lines = captured.decided_lines, captured.selected_lines
        # Its only call, which takes longer with XLA. Not with sparse gradients, which are dense in a program.
        leaves_sparse = captured.trace.has_sparse_gradients
        self.runs_as_written = lowered.left.runs_once and inputs.device is cpu and not leaves_sparse
        self.compile_seconds: float | None = None
        self._overwrites = not captured.may_come_to_nothing
        self.summary = _summary(captured, lowered, trace_seconds)

    # --- whether it fits

    def guard_failure(self, arguments: list[Any]) -> str:
        """Return the reason of the guard that fails."""
        return failure(self.guards[:-1], arguments) or self.guards[-1].reason()

    def admits(self, arguments: list[Any]) -> bool:
        """Return whether labels and indices pass the checks that eager mode makes."""
        try:
            for check in self._input_checks:
                check.run(arguments)
        except Exception:
            self._schedules.rewind()
            self._forget_first()
            return False
        return True

    def _forget_first(self) -> None:
        if self.first is not None:
            self.first.take_back()
            self.first = None

    def inform(self, plan: Plan) -> None:
        """Add this program's facts to the plan of a new trace: numbers that have changed may change again."""
        plan.counters.update({place_at(*place): place for place in self._counters.places})
        plan.counters.update(self._places.changed_numbers() | self._reads.changed_numbers())
        plan.decided.update(self._decided_lines)
        plan.selected.update(self._selected_lines)

    # --- calls

    def run_from(self, answers: Sequence[Answer], arguments: list[Any]) -> Any:
        """Run one step, given the outcomes of its first branches on values. Raise Mispredicted if an outcome differs."""
        self.decisions.trusted = len(answers)
        try:
            while True:
                try:
                    if self._schedules.made:
                        return self._schedules.around(self._run, arguments)
                    return self._run(arguments)
                except RunAgain:
                    continue
        except BaseException:
            self._forget_first()
            raise
        finally:
            self.first = None

    def replay(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the step eagerly, after a call on the host has raised."""
        return self.callbacks.replay(function, args, kwargs)

    def _run(self, arguments: list[Any]) -> Any:
        """Run one step. Raise Interrupted if a callback raises and `replay` can reproduce what eager mode leaves."""
        if not self.callbacks.host_calls:
            return self._call(arguments)
        self.callbacks.begin()
        try:
            return self._call(arguments)
        except Exception as error:
            self._end()
            self.callbacks.interrupt(error)
            raise

    def _call(self, arguments: list[Any]) -> Any:
        inputs, outputs, callbacks = self.inputs, self.outputs, self.callbacks
        values_of = inputs.arguments(arguments)  # which may be padded
        arguments = values_of if self._cuts is None else inputs.arguments(arguments.originals)  # type: ignore[attr-defined]
        streams = [(generator.stream, generator.stream.get_state()) for generator in alive] if self._decided else ()
        values = inputs.gather(values_of)
        if callbacks.mirrors.tensors:
            callbacks.mirrors.begin(inputs.shown(arguments))
        callbacks.run_before()
        if Deferred.calls:
            Deferred.run()  # what other threads have put off meanwhile may read what the program overwrites
        if callbacks.agreement is not None:
            callbacks.agreement.begin()
        started = time.perf_counter()
        results = self.jitted(*values)
        callbacks.wait(results)
        if self._cuts is not None:
            results = outputs.cut(results, self._cuts)
        if self.compile_seconds is None:
            self.compile_seconds = time.perf_counter() - started
        if self._decided:
            try:
                self._check_decisions([results[place] for place in self._decided])
            except (Mispredicted, RunAgain):
                for stream, state in streams:
                    stream.set_state(state)
                self._end()
                raise
        outputs.fill(results)
        finish = partial(outputs.put, results, arguments)
        if self._overwrites and callbacks.are_notes:  # which wait for the device: what can be done before, is
            callbacks.prefetch()
            outputs.put_values(results, arguments)
            finish = partial(outputs.leave, arguments)
        try:
            callbacks.run_after()  # if a call raises, nothing has changed
        except BaseException as error:
            if self._overwrites:  # from here on, nothing can be undone
                finish()
                callbacks.refuse_error(error)
            raise
        result = callbacks.result_of(finish())
        self._end()
        return result

    def _check_decisions(self, values: list[Any]) -> None:
        """Raise Mispredicted if a guess was wrong in this call, or RunAgain if only guesses of other ranks were."""
        agreement, wrong = self.callbacks.agreement, None
        try:
            self.decisions.check(values)
        except Mispredicted as other:
            wrong = other
        # After a wrong guess before the first collective, this rank has not communicated.
        if agreement is not None and (wrong is None or len(wrong.answers) > agreement.guesses_before):
            if not agreement.holds(wrong is None) and wrong is None:
                raise RunAgain
        if wrong is not None:
            raise wrong

    def _end(self) -> None:
        """End a call."""
        self.inputs.release()
        self.callbacks.mirrors.end()


def make_program(call: Call, plan: Plan) -> Program:
    """Trace a call of a step and lower the trace to a program. Raise Retrace if the trace has added to the plan."""
    started = time.perf_counter()
    captured = capture(call, plan) if plan.lengths is None else capture_padded(call, plan, plan.lengths)
    try:
        lowered = lower(captured)
        if plan.lengths is not None:
            padded = plan.lengths.places_of(call)
            refuse_passed_on(lowered.passed_on, [place for _, place in lowered.outputs.arguments], padded)
    except BaseException:
        captured.undo()
        raise
    following = next_first_state(plan.first, captured, lowered) if plan.lengths is None else None
    if following is not None:
        captured.undo()
        if plan.first is not None:
            plan.first.take_back()
        following.begin()
        plan.first = following
        raise Retrace
    captured.finish()
    program = Program(captured, lowered, time.perf_counter() - started)
    program.first = plan.first
    return program


def _summary(captured: Capture, lowered: Lowered, trace_seconds: float) -> Summary:
    inputs = lowered.inputs
    return Summary(
        operations=lowered.size,
        captured=[array for _, array, _ in (*inputs.donated, *inputs.packed, *inputs.states)],
        written=len(lowered.outputs.buffers),
        numbers=len(captured.inputs.options.places) if inputs.uses_numbers else 0,
        draws=captured.trace.host_inputs.draws(),
        runs_once=lowered.left.runs_once,
        placed=captured.callbacks.placed,
        trace_seconds=trace_seconds,
    )
