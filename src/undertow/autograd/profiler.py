"""`torch.autograd.profiler`: how long each function took that a program called, and the stretches that it gave a name.

A profiler times public functions as the program calls them (what they call in turn is part of their time), and blocks of
`record_function`. The backward pass shows as the one function that starts it.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from undertow._core import TensorCore
from undertow.lazy import lazy_names
from undertow.overrides import TorchFunctionMode

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]

_recording: list[profile] = []


class record_function:
    """Names a stretch of the program, in a `with` block or over a function. It does nothing unless a profiler runs.

    >>> with torch.autograd.profiler.record_function("forward"):
    ...     y = torch.ones(2) + 1
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[FunctionEvent] = []

    def __enter__(self) -> Self:
        if _recording:
            self._open.append(_recording[-1]._begin(self.name, None))
        return self

    def __exit__(self, *exception: object) -> None:
        if self._open:
            self._open.pop().end()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def named(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return named


class FunctionEvent:
    """One call: its name, when it began and ended (in microseconds), and what it called in turn."""

    def __init__(self, name: str, shapes: Any, parent: FunctionEvent | None, owner: profile) -> None:
        self.name = self.key = name
        self.input_shapes = shapes
        self.cpu_parent = parent
        self.cpu_children: list[FunctionEvent] = []
        self.thread = threading.get_ident()
        self._owner = owner
        self.started = time.perf_counter_ns()
        self.ended = self.started

    def end(self) -> None:
        self.ended = time.perf_counter_ns()
        if self._owner._current is self:
            self._owner._current = self.cpu_parent

    count = 1

    @property
    def cpu_time_total(self) -> float:
        return (self.ended - self.started) / 1e3

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    def __repr__(self) -> str:
        return f"<FunctionEvent name={self.name} cpu_time={self.cpu_time_total:.3f}us>"


class FunctionEventAvg:
    """All calls of one name."""

    def __init__(self, key: str, input_shapes: Any = None) -> None:
        self.key, self.input_shapes = key, input_shapes
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0

    def add(self, event: Any) -> None:
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total

    @property
    def cpu_time(self) -> float:
        """The mean time of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total:.3f}us count={self.count}>"


class EventList(list[Any]):
    """Calls, or averages of them."""

    @property
    def self_cpu_time_total(self) -> float:
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shapes: bool = False, **options: Any) -> EventList:
        """One row per name (and shapes of its arguments)."""
        rows: dict[Any, FunctionEventAvg] = {}
        for event in self:
            place = (event.key, str(event.input_shapes)) if group_by_input_shapes else event.key
            if place not in rows:
                rows[place] = FunctionEventAvg(event.key, event.input_shapes if group_by_input_shapes else None)
            rows[place].add(event)
        return EventList(rows.values())

    def total_average(self) -> FunctionEventAvg:
        """All calls as one row."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False, **options: Any,
    ) -> str:  # fmt: skip
        """The rows as text, the largest first by any of their numbers (`cpu_time_total`, `count`…)."""
        rows = list(self)
        if sort_by is not None:
            rows.sort(key=lambda row: getattr(row, sort_by, 0), reverse=True)
        whole = self.self_cpu_time_total or 1.0
        names = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        cells = [
            [
                row.key[:max_name_column_width],
                f"{row.self_cpu_time_total / whole:.2%}",
                _shown(row.self_cpu_time_total),
                f"{row.cpu_time_total / whole:.2%}",
                _shown(row.cpu_time_total),
                _shown(row.cpu_time_total / row.count),
                str(row.count),
            ]
            for row in rows[: row_limit if row_limit >= 0 else None]
        ]
        widths = [max(len(line[place]) for line in [names, *cells]) for place in range(len(names))]
        rule = "  ".join("-" * width for width in widths)
        lines = [rule, "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True)), rule]
        lines += ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
        lines += [rule, f"Self CPU time total: {_shown(self.self_cpu_time_total)}", ""]
        return "\n".join([header, *lines] if header else lines)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the calls in the format of chrome://tracing."""
        events = [
            {
                "name": event.name, "ph": "X", "ts": event.started / 1e3, "dur": event.cpu_time_total,
                "tid": event.thread, "pid": "CPU functions", "args": {},
            }
            for event in self
        ]  # fmt: skip
        with open(path, "w") as file:
            json.dump({"traceEvents": events}, file)

    def __str__(self) -> str:
        return self.table()


def _shown(microseconds: float) -> str:
    for unit, length in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= length:
            return f"{microseconds / length:.3f}{unit}"
    return f"{microseconds:.3f}us"


class profile:
    """Inside its `with` block calls are timed.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(2).exp()
    >>> [event.key for event in prof.key_averages()]
    ['aten::ones', 'aten::exp']
    """

    def __init__(self, enabled: bool = True, *, record_shapes: bool = False, **options: Any) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes
        self.function_events: EventList = EventList()
        self._current: FunctionEvent | None = None
        self._mode = _Watching(self)

    def __enter__(self) -> Self:
        if self.enabled:
            self._start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            self._stop()

    def _start(self) -> None:
        _recording.append(self)
        self._mode.__enter__()

    def _stop(self) -> None:
        self._mode.__exit__(None, None, None)
        _recording.remove(self)

    def _begin(self, name: str, shapes: Any) -> FunctionEvent:
        event = FunctionEvent(name, shapes, self._current, self)
        if self._current is not None:
            self._current.cpu_children.append(event)
        self._current = event
        self.function_events.append(event)
        return event

    def key_averages(self, group_by_input_shape: bool = False, **options: Any) -> EventList:
        """One row per name."""
        return self.function_events.key_averages(group_by_input_shape)

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    def table(self, *args: Any, **options: Any) -> str:
        return self.key_averages().table(*args, **options)

    def export_chrome_trace(self, path: str) -> None:
        self.function_events.export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        return self.function_events.self_cpu_time_total

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self in _recording else self.function_events.table()


class _Watching(TorchFunctionMode):
    """Times every function that a program calls."""

    def __init__(self, owner: profile) -> None:
        super().__init__()
        self.owner = owner

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__" or name.startswith("__"):  # a property, or a method of Python's: no work to speak of
            return func(*args, **(kwargs or {}))
        shapes = None
        if self.owner.record_shapes:
            shapes = [list(value.shape) if isinstance(value, TensorCore) else [] for value in args]
        event = self.owner._begin(name if name == "backward" else f"aten::{name}", shapes)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            event.end()


def is_recording() -> bool:
    """Whether a profiler is at work."""
    return bool(_recording)


def kineto_available() -> bool:
    """Whether PyTorch's own recorder is here: undertow has another."""
    return False


class emit_nvtx:
    """Marks functions for NVIDIA's profiler, which needs a GPU."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        if self.enabled:
            raise AssertionError("Torch not compiled with CUDA enabled")

    def __exit__(self, *exception: object) -> None:
        pass


__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(
        "DeviceType EnforceUnique KinetoStepTracker MEMORY_EVENT_NAME OUT_OF_MEMORY_EVENT_NAME ProfilerConfig "
        "ProfilerState emit_itt".split(),
        "undertow.autograd.profiler_kinds",
    ),
)
