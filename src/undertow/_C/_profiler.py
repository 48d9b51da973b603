"""`torch._C._profiler`: the enumerations of profilers."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from undertow._src.engine.profiling.kinds import ActiveProfilerType as ActiveProfilerType
from undertow._src.engine.profiling.kinds import ProfilerActivity as ProfilerActivity
from undertow._src.engine.profiling.kinds import ProfilerConfig as ProfilerConfig
from undertow._src.engine.profiling.kinds import ProfilerState as ProfilerState
from undertow._src.engine.profiling.kinds import RecordScope as RecordScope
from undertow._src.engine.profiling.kinds import _ExperimentalConfig as _ExperimentalConfig
from undertow.autograd.profiler import record_function

__all__ = [
    "ActiveProfilerType", "ProfilerActivity", "ProfilerConfig", "ProfilerState", "RecordScope", "_ExperimentalConfig",
    "_RecordFunctionFast", "_get_approximate_time",
]  # fmt: skip


class _RecordFunctionFast(record_function):
    """Names a stretch of the program; the values given with it are kept with it."""

    def __init__(self, name: str, input_values: Any = None, keyword_values: Any = None, scope: Any = None) -> None:
        super().__init__(name)
        self.input_values, self.keyword_values = input_values, keyword_values


def _get_approximate_time() -> int:
    """Nanoseconds since some moment."""
    return perf_counter_ns()
