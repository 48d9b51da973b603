"""The collectives of a step that is compiled on several ranks.

Those of one group are operations of the program (see `collective_ops.py`). Some can't be: those of other groups, of
tensors on a device, and those that are only reached if the step decided as the trace has guessed. They are ordered
callbacks: the program gives them values, and they communicate on the host.

All ranks have to run programs with the same collectives. A call begins with an exchange of fingerprints of all of them
(see `_src/distributed/rank_programs.py`); with callbacks alone, the first of them carries it. If the fingerprints differ,
every rank raises a CompileError that names the first difference.

If the step branches on a value after a collective, a call ends with an exchange of whether the guesses were right. If one
was wrong on any rank, all ranks repeat the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import numpy as np
from jax.experimental import io_callback

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.errors import CompileError
from undertow._src.compile.tracing.collective_ops import CollectiveOps
from undertow._src.distributed.errors import DifferentPrograms
from undertow._src.distributed.rank_programs import Agreement, RankProgram, note_error
from undertow._src.types.devices import cpu

if TYPE_CHECKING:
    from undertow._src.base.tracer import Inside, OnHost
    from undertow._src.compile.tracing.trace_state import Trace


class Collectives:
    """The collectives of a trace, in order."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._calls: list[str] = []
        self._checks: list[Callable[[], None]] = []
        self._decisions_before = 0
        self._group: Any = None  # the group whose collectives are operations of the program
        self._last: Any = None  # a value that the last collective has made
        self._groups: dict[Any, None] = {}  # of all collectives
        self.agreement: Agreement | None = None  # if the step branches on values after a collective
        self.failed: DeviceArray | None = None  # whether a hook has raised on any rank, before the last collective
        self._is_told = False  # whether all ranks know it
        self.is_step = False  # whether a step is traced: a separate backward pass has no operations

    def emit(
        self, call: str, group: Any, inside: Inside | None, run: OnHost, given: Sequence[Any], like: Sequence[Any]
    ) -> list[Any]:
        """Put a collective into the program, by `inside` or by `run` on the host. Return arrays of the shapes `like`."""
        trace = self._trace
        placed, decisions = trace.placer.calls, trace.decisions
        if trace.choice is not None or decisions.branches is not None:
            self.refuse(f"{call}: whether it is reached depends on a value. Call it on every rank in any case")
        placed.has_collectives = True
        number, calls, count = len(self._calls), self._calls, len(decisions)
        is_operation = (
            inside is not None and self.is_step and not count and self._group in (None, group) and trace.device is cpu
        )
        what, _, site = call.rpartition(" at ")
        calls.append(call if is_operation else f"{what}, on the host at {site}")
        self._groups[group] = None
        if number == 0:
            self._decisions_before = count
            placed.before_collectives = {id(each) for each in placed.host_calls}
        program = CollectiveOps(group.size(), self._last, self._failed() if is_operation else 0)
        if inside is not None and is_operation:
            self._group = group
            values = inside(program, [array.value for array in given])
            self._note(program)
            return [DeviceArray(value.reshape(each.shape)) for value, each in zip(values, like, strict=True)]
        placed.has_inside = True
        specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in like]
        mark = jax.ShapeDtypeStruct((), np.int32)  # a result that later collectives depend on
        raised, before = placed.raised, self._decisions_before
        agreement = self._agree(site) if count > before else None

        def is_reached(values: Sequence[Any]) -> bool:
            """Return whether eager code would get here in this call."""
            if raised or not decisions.hold(values[:before]):
                return False
            is_right = decisions.hold(values)
            return is_right if agreement is None else agreement.holds(is_right)

        def on_host(*values: Any) -> list[Any]:
            try:
                if is_reached(values[:count]):
                    found = run(
                        number + (self._group is not None), calls, [np.asarray(value) for value in values[count:]]
                    )
                    found = [np.asarray(each).reshape(spec.shape) for each, spec in zip(found, specs, strict=True)]
                    return [*found, np.int32(0)]
            except DifferentPrograms as error:
                raised.append(CompileError(f"undertow.compile: {error}"))
            except BaseException as error:
                raised.append(error)
            return [*[np.zeros(spec.shape, spec.dtype) for spec in specs], np.int32(0)]

        operands = [*decisions.operands(), *[program.after(array.value) for array in given]]
        *values, self._last = io_callback(on_host, [*specs, mark], *operands, ordered=True)
        return [DeviceArray(value) for value in values]

    def compiled(self, jitted: Any, options: dict[str, Any], buffers: Sequence[Any]) -> Callable[..., list[Any]]:
        """Return a jitted program, or one that several ranks run together if collectives are operations of it.

        `buffers` are those of its results.
        """
        if self._group is None or self._group.size() == 1:
            return jitted
        assert self.failed is not None
        failed = [*map(id, buffers)].index(id(self.failed.buffer))
        program, calls = RankProgram(self._group, self._calls, jitted, options), self._trace.placer.calls

        def run(*values: Any) -> list[Any]:
            try:
                results = program(*values)
                if results[failed]:
                    program.report(calls.raised[0] if calls.raised else None)
                return results
            except DifferentPrograms as error:
                raise CompileError(f"undertow.compile: {error}") from None

        return run

    def _failed(self) -> Any:
        """Return 1 if a hook that the program waits for has raised, else 0."""
        calls = self._trace.placer.calls
        if not calls.has_inside:
            return 0
        raised = calls.raised
        return io_callback(lambda: np.int32(bool(raised)), jax.ShapeDtypeStruct((), np.int32), ordered=True)

    def _note(self, program: CollectiveOps) -> None:
        """Record the result of a collective."""
        self._last, self._is_told = program.last, program.failed_anywhere is not None
        if self._is_told:
            before = False if self.failed is None else self.failed.value
            self.failed = DeviceArray(program.failed_anywhere | before)

    def _agree(self, site: str) -> Agreement:
        """Return the ranks' agreement on the branches after a collective."""
        if self.agreement is None:
            if len(self._groups) > 1:
                self.refuse(
                    f"the step branches on a value after a collective, and communicates in two groups, at {site}"
                )
            (group,) = self._groups
            self.agreement = Agreement(group, site, self._decisions_before)
            self._calls.append(f"agreement on branches at {site}")
        return self.agreement

    @property
    def has_calls(self) -> bool:
        """Whether the step communicates."""
        return bool(self._calls)

    def refuse(self, what: str) -> NoReturn:
        """Stop the compile."""
        raise CompileError(f"undertow.compile: {what}.")

    def at_end(self, check: Callable[[], None]) -> None:
        """Call a function when the step has run."""
        self._checks.append(check)

    def finish(self) -> None:
        """Make the checks at the end of the step."""
        for check in self._checks:
            check()
        if self._calls:
            site = self._calls[0].rpartition(" at ")[2]
            self._trace.placer.calls.abandon = partial(_note_error, tuple(self._groups), site)
        if self._calls and len(self._trace.decisions) > self._decisions_before:
            self._agree(site)
            self._trace.placer.refuse_calls_before(None)
        if self._group is not None and not self._is_told:
            program = CollectiveOps(self._group.size(), self._last)
            program.failed_anywhere = program.all_reduce([jax.numpy.asarray(self._failed(), np.int32)])[0] > 0
            self._note(program)


def _note_error(groups: tuple[Any, ...], site: str, error: BaseException) -> None:
    """Tell all groups of a step that this rank left it with an error."""
    for group in groups:
        note_error(group, site, error)
