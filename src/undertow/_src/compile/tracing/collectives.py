"""The collectives of a step that is compiled on several ranks.

A collective is an ordered callback inside the program: it gets values, communicates on the host, and returns the results
to the program. All ranks have to run programs with the same collectives. The first collective of a call carries a
fingerprint of all of them, which is compared where ranks agree on each collective (see `_src/distributed/groups.py`). If
the fingerprints differ, every rank raises a CompileError that names the first difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import numpy as np
from jax.experimental import io_callback

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.errors import CompileError
from undertow._src.distributed.errors import DifferentPrograms

if TYPE_CHECKING:
    from undertow._src.base.tracer import OnHost
    from undertow._src.compile.tracing.trace_state import Trace


class Collectives:
    """The collectives that a trace has met, in their order."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._calls: list[str] = []
        self._checks: list[Callable[[], None]] = []
        self._decisions_before = 0

    def emit(self, call: str, run: OnHost, given: Sequence[Any], like: Sequence[Any]) -> list[Any]:
        """Put a collective into the program; `run` makes it on the host. Return arrays of the shapes `like`."""
        trace = self._trace
        placed, decisions = trace.placer.calls, trace.decisions
        if trace.choice is not None or decisions.branches is not None:
            self.refuse(f"{call}: whether it is reached depends on a value. Call it on every rank in any case")
        placed.has_inside = placed.has_collectives = True
        number, calls, count = len(self._calls), self._calls, len(decisions)
        calls.append(call)
        if number == 0:
            self._decisions_before = count
        specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in like]
        raised = placed.raised

        def on_host(*values: Any) -> list[Any]:
            try:
                if not raised and decisions.hold(values[:count]):  # else eager code would not have come here
                    found = run(number, calls, [np.asarray(value) for value in values[count:]])
                    return [np.asarray(each).reshape(spec.shape) for each, spec in zip(found, specs, strict=True)]
            except DifferentPrograms as error:
                raised.append(CompileError(f"undertow.compile: {error}"))
            except BaseException as error:
                raised.append(error)
            return [np.zeros(spec.shape, spec.dtype) for spec in specs]

        operands = [*decisions.operands(), *[array.value for array in given]]
        return [DeviceArray(value) for value in io_callback(on_host, specs, *operands, ordered=True)]

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
        if self._calls and len(self._trace.decisions) > self._decisions_before:
            where = self._trace.decisions.listed()[-1][0]
            self.refuse(
                f"the step decides by a value at {where or 'an unknown line'}, after {self._calls[0]}. A wrong guess would "
                "make this rank communicate twice. Decide outside of the step, or use torch.where"
            )
