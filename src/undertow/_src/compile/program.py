"""A step as one XLA program, called in the step's place.

A call gathers the inputs, runs the program, puts the outputs where the trace left them, and runs the callbacks around it.

NOTE later. XLA may still be at work when a call returns, on the CPU too, where large programs have threads of their own:
what is left are arrays to come, and reading one waits for it. So the memory of NumPy's arrays, which any code may write
to after the call, is copied before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.callbacks.host_calls import Placed
from undertow._src.compile.guards.guard import Guard, failure
from undertow._src.compile.guards.places import place_at
from undertow._src.compile.lowering.lowered import Lowered, lower
from undertow._src.compile.plan import Plan
from undertow._src.compile.program_inputs import ProgramInputs
from undertow._src.compile.program_outputs import ProgramOutputs
from undertow._src.compile.tracing.capture import Capture, capture
from undertow._src.compile.tracing.decisions import Answer, Mispredicted
from undertow._src.compile.tracing.host_inputs import Draw
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

    turn = used = 0  # when it was made, among all, and used, in calls

    def __init__(self, captured: Capture, lowered: Lowered, trace_seconds: float) -> None:
        inputs = captured.inputs
        self.guards: list[Guard] = [  # all that the program depends on
            *captured.guards,
            *lowered.guards,
            captured.answers,  # at the end: a call goes on with the numbers that it has seen
        ]
        self._checks = [guard.hold for guard in self.guards]
        self._input_checks = captured.checks
        self.jitted = lowered.jitted
        self.inputs = ProgramInputs(captured, lowered)
        self.outputs = ProgramOutputs(captured, lowered, self.inputs.numbers)
        self.callbacks = captured.callbacks
        self.decisions, self._decided = captured.decisions, lowered.outputs.decided
        self._schedules, self._counters = inputs.schedules, inputs.counters
        self._places, self._reads = inputs.guards.places, captured.reads
        self._decided_lines, self._selected_lines = captured.decided_lines, captured.selected_lines
        # Its only call: XLA would take longer. Not if it would leave sparse gradients, which programs keep dense.
        leaves_sparse = captured.trace.has_sparse_gradients
        self.runs_as_written = lowered.left.runs_once and inputs.device is cpu and not leaves_sparse
        self.compile_seconds: float | None = None
        self.summary = _summary(captured, lowered, trace_seconds)

    # --- whether it fits

    def guards_hold(self, arguments: list[Any]) -> bool:
        """Return whether everything the program depends on is as it was when it was made."""
        for holds in self._checks:
            if not holds(arguments):
                return False
        return True

    def guard_failure(self, arguments: list[Any]) -> str:
        """Return which guard fails, in words."""
        return failure(self.guards[:-1], arguments) or self.guards[-1].reason()

    def admits(self, arguments: list[Any]) -> bool:
        """Return whether labels, indices and the like pass the checks that eager code makes of them."""
        try:
            for check in self._input_checks:
                check.run(arguments)
        except Exception:
            self._schedules.rewind()
            return False
        return True

    def inform(self, plan: Plan) -> None:
        """Tell the plan of another trace what this one has learnt: numbers that have changed may change again."""
        plan.counters.update({place_at(*place): place for place in self._counters.places})
        plan.counters.update(self._places.changed_numbers() | self._reads.changed_numbers())
        plan.decided.update(self._decided_lines)
        plan.selected.update(self._selected_lines)

    # --- calls

    def run_from(self, answers: Sequence[Answer], arguments: list[Any]) -> Any:
        """Run one step, given answers to its first decisions about values. Raise Mispredicted if it makes others."""
        self.decisions.trusted = len(answers)
        if self._schedules.made:
            return self._schedules.around(self._run, arguments)
        return self._run(arguments)

    def replay(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the step as it is written, after a call on the host has raised."""
        return self.callbacks.replay(function, args, kwargs)

    def _run(self, arguments: list[Any]) -> Any:
        """Raise Interrupted if a call on the host raises and `replay` can find out what eager mode leaves."""
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
        arguments = inputs.arguments(arguments)
        streams = [(generator.stream, generator.stream.get_state()) for generator in alive] if self._decided else ()
        values = inputs.gather(arguments)
        if callbacks.mirrors.tensors:
            callbacks.mirrors.begin(inputs.shown(arguments))
        for call in callbacks.before:
            call.run()
        started = time.perf_counter()
        results = self.jitted(*values)
        callbacks.wait(results)
        if self.compile_seconds is None:
            self.compile_seconds = time.perf_counter() - started
        if self._decided:
            try:
                self.decisions.check([results[place] for place in self._decided])
            except Mispredicted:
                for stream, state in streams:
                    stream.set_state(state)
                self._end()
                raise
        outputs.fill(results)
        callbacks.run_after()  # should one raise, nothing has changed
        result = callbacks.result_of(outputs.put(results, arguments))
        self._end()
        return result

    def _end(self) -> None:
        """End a call."""
        self.inputs.release()
        self.callbacks.mirrors.end()


def make_program(call: Call, plan: Plan) -> Program:
    """Trace a call of a step, and lower the trace to a program. Raise Retrace if the plan knows more now."""
    started = time.perf_counter()
    captured = capture(call, plan)
    try:
        lowered = lower(captured)
    except BaseException:
        captured.undo()
        raise
    captured.finish()
    return Program(captured, lowered, time.perf_counter() - started)


def _summary(captured: Capture, lowered: Lowered, trace_seconds: float) -> Summary:
    inputs = lowered.inputs
    return Summary(
        operations=lowered.size,
        captured=[array for _, array, _ in (*inputs.donated, *inputs.packed, *inputs.states)],
        written=len(lowered.outputs.buffers),
        numbers=len(captured.inputs.options.places) if inputs.uses_numbers else 0,
        draws=sum(type(draw) is Draw for draw in captured.trace.host_inputs.all),
        runs_once=lowered.left.runs_once,
        placed=captured.callbacks.placed,
        trace_seconds=trace_seconds,
    )
