"""The trace that is running, for the parts of the compiler that work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from undertow._src.base import tracer

if TYPE_CHECKING:
    from undertow._src.compile.tracing.trace_state import Trace


def running_trace() -> Trace:
    """Return the running trace. Eager code uses only the part in `tracer.Tracer`."""
    return cast("Trace", tracer.running())
