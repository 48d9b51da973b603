"""`torch.autograd.profiler_util`: the events of a profiler, their averages, and tables of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from undertow._src.engine.profiling.kinds import MEMORY_EVENT_NAME as MEMORY_EVENT_NAME
from undertow._src.engine.profiling.kinds import OUT_OF_MEMORY_EVENT_NAME as OUT_OF_MEMORY_EVENT_NAME
from undertow._src.engine.profiling.kinds import DeviceType as DeviceType
from undertow._src.engine.profiling.table import _attr_formatter as _attr_formatter
from undertow._src.engine.profiling.table import _build_table as _build_table
from undertow._src.engine.profiling.table import _format_memory as _format_memory
from undertow._src.engine.profiling.table import _format_time as _format_time
from undertow._src.engine.profiling.table import _format_time_share as _format_time_share

__all__ = [
    "EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel", "MemRecordsAcc",
    "StringTable",
]  # fmt: skip


class Kernel(NamedTuple):
    """Work on a device."""

    name: str
    device: int
    duration: float


class Interval:
    """An interval of time, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


class FormattedTimesMixin:
    """Times as text, and the mean time of a call. There is no device but the CPU, so its times are zero."""

    count: int
    cpu_time_total: Any
    device_time_total: Any

    cpu_time_str, device_time_str = _attr_formatter("cpu_time"), _attr_formatter("device_time")
    cpu_time_total_str = _attr_formatter("cpu_time_total")
    device_time_total_str = _attr_formatter("device_time_total")
    self_cpu_time_total_str = _attr_formatter("self_cpu_time_total")
    self_device_time_total_str = _attr_formatter("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    cuda_time = device_time


class FunctionEvent(FormattedTimesMixin):
    """One call: its name, when it began and ended (in microseconds), and what it called in turn."""

    def __init__(
        self, id: int, name: str, thread: int, start_us: float, end_us: float, overload_name: str | None = None,
        fwd_thread: int | None = None, input_shapes: Any = None, stack: object = None, scope: int = 0,
        use_device: str | None = None, cpu_memory_usage: int = 0, device_memory_usage: int = 0, is_async: bool = False,
        is_remote: bool = False, sequence_nr: int = -1, node_id: int = -1, device_type: Any = DeviceType.CPU,
        device_index: int = 0, device_resource_id: int | None = None, is_legacy: bool = False, flops: int | None = None,
        trace_name: str | None = None, concrete_inputs: object = None, **more: object,
    ) -> None:  # fmt: skip
        self.id, self.node_id, self.name, self.overload_name = id, node_id, name, overload_name
        self.trace_name = trace_name or name
        self.time_range = Interval(start_us, end_us)
        self.thread, self.fwd_thread, self.count = thread, fwd_thread, 1
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes, self.concrete_inputs, self.stack, self.scope = input_shapes, concrete_inputs, stack, scope
        self.use_device, self.cpu_memory_usage, self.device_memory_usage = (
            use_device,
            cpu_memory_usage,
            device_memory_usage,
        )
        self.is_async, self.is_remote, self.sequence_nr, self.is_legacy = is_async, is_remote, sequence_nr, is_legacy
        self.device_type, self.device_index = device_type, device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.flops = flops
        self.is_user_annotation = more.get("is_user_annotation", False)

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:
        return sum(kernel.duration for kernel in self.kernels)

    cuda_time_total = self_device_time_total = self_cuda_time_total = device_time_total

    @property
    def self_device_memory_usage(self) -> int:
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    self_cuda_memory_usage = self_device_memory_usage

    def __repr__(self) -> str:
        children = str([child.id for child in self.cpu_children])
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} cpu_children={children} "
            f"{self.use_device}_time={self.device_time_str} name={self.name} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{self.use_device}_memory_usage={self.device_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """All calls of one name."""

    _COPIED = (
        "key node_id is_async is_remote input_shapes overload_name stack scope device_type is_legacy use_device "
        "is_user_annotation cpu_parent cpu_children".split()
    )  # fmt: skip
    _SUMMED = (
        "cpu_time_total device_time_total self_cpu_time_total self_device_time_total cpu_memory_usage "
        "device_memory_usage self_cpu_memory_usage self_device_memory_usage".split()
    )

    def __init__(self) -> None:
        for name in self._COPIED:
            setattr(self, name, None)
        self.key: Any = None
        self.count, self.node_id, self.is_async, self.is_remote, self.is_legacy = 0, 0, False, False, False
        for name in self._SUMMED:
            setattr(self, name, 0)
        self.flops = 0
        self.device_type: Any = DeviceType.CPU

    def add(self, other: object) -> FunctionEventAvg:
        """Count another call, or other calls, of the same name."""
        if self.key is None:
            for name in self._COPIED:
                setattr(self, name, getattr(other, name))
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)) or other.key != self.key:
            raise AssertionError(f"cannot add {other!r} to the calls of {self.key!r}")
        for name in self._SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.count += other.count
        self.flops = (self.flops or 0) + (other.flops or 0)
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        device = self.use_device or "cuda"  # type: ignore[attr-defined]
        own, whole = self.self_device_time_total_str, self.device_time_str
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str}  "
            f"self_{device}_time={own} {device}_time={whole} input_shapes={self.input_shapes} "  # type: ignore[attr-defined]
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"  # type: ignore[attr-defined]
        )


class EventList(list[Any]):
    """Calls, or averages of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory, self._with_flops = kwargs.pop("profile_memory", False), kwargs.pop("with_flops", False)
        super().__init__(*args)
        self._tree_built = False

    def _like(self, events: Iterable[Any]) -> EventList:
        return EventList(
            events, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
        )

    def _build_tree(self) -> None:
        """Find the parent of each call from the times."""
        self._populate_cpu_children()
        self._tree_built = True

    def _populate_cpu_children(self) -> None:
        threads: dict[int, list[FunctionEvent]] = defaultdict(list)
        for event in self:
            if not event.is_async:
                threads[event.thread].append(event)
        for events in threads.values():
            open_now: list[FunctionEvent] = []
            for event in sorted(events, key=lambda each: (each.time_range.start, -each.time_range.end)):
                while open_now and (
                    event.time_range.start >= open_now[-1].time_range.end
                    or event.time_range.end > open_now[-1].time_range.end
                ):
                    open_now.pop()
                if open_now:
                    open_now[-1].append_cpu_child(event)
                    event.set_cpu_parent(open_now[-1])
                open_now.append(event)

    @property
    def self_cpu_time_total(self) -> float:
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return one row per name, on request also per argument shapes and per innermost calling lines."""
        if not self._tree_built:
            raise AssertionError("Expected tree to be built before calling key_averages")
        rows: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            place = [event.key, str(event.node_id), str(event.device_type), str(event.is_legacy)]
            place += [str(event.input_shapes)] if group_by_input_shapes else []
            place += [str(event.overload_name)] if group_by_overload_name else []
            place += list(event.stack or ())[:group_by_stack_n]
            rows[tuple(place)].add(event)
        for row in rows.values():
            row.stack = list(row.stack or ())[:group_by_stack_n]  # type: ignore[attr-defined]
            row.input_shapes = row.input_shapes if group_by_input_shapes else ""  # type: ignore[attr-defined]
        return self._like(rows.values())

    def total_average(self) -> FunctionEventAvg:
        """Return all calls as one row."""
        total = FunctionEventAvg()
        for event in self:
            total += event
            total.key = None  # each event may have its own name
        total.key = "Total"
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False, time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """Return the rows as text, sorted by any of their numbers (`cpu_time_total`, `count`…), largest first."""
        return _build_table(
            self, sort_by=sort_by, row_limit=row_limit, max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width, max_shapes_column_width=max_shapes_column_width, header=header,
            profile_memory=self._profile_memory, with_flops=self._with_flops,
            top_level_events_only=top_level_events_only, time_unit=time_unit,
        )  # fmt: skip

    def export_chrome_trace(self, path: str, metadata: dict[str, str] | None = None) -> None:
        """Write the calls in the format of chrome://tracing, and values given as JSON."""
        events = [
            {
                "name": event.trace_name, "ph": "X", "ts": event.time_range.start, "dur": event.time_range.elapsed_us(),
                "tid": event.thread, "pid": "CPU functions", "args": {},
            }
            for event in self
        ]  # fmt: skip
        with open(path, "w") as file:
            json.dump(
                {name: json.loads(text) for name, text in (metadata or {}).items()} | {"traceEvents": events}, file
            )

    def supported_export_stacks_metrics(self) -> list[str]:
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write the time spent in each call stack, in the format of flame graphs."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        value = attrgetter(metric.replace("xpu", "device").replace("privateuse1", "device"))
        with open(path, "w") as file:
            for event in self:
                if event.stack and int(value(event)) > 0:
                    lines = [line.translate(str.maketrans(" ;\t\n", "____")) for line in reversed(event.stack)]
                    file.write(f"{';'.join(lines)} {int(value(event))}\n")

    def __str__(self) -> str:
        return self.table()


# --- names


class StringTable(defaultdict[str, str]):
    """A cache of names as they are shown."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


def _filter_stack_entry(entry: str) -> bool:
    """Whether a line of a stack is the user's."""
    hidden = (("autograd/__init__", "_make_grads"), ("autograd/__init__", "backward"), ("torch/tensor", "backward"))
    return all(not (file in entry and function in entry) for file, function in hidden)


def _filter_name(name: str) -> bool:
    """Whether an event belongs to the profiler itself."""
    return name in (
        MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME, "profiler::_record_function_enter",
        "profiler::_record_function_enter_new", "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr",
        "aten::_version",
    )  # fmt: skip


def _rewrite_name(name: str, with_wildcard: bool = False) -> str:
    """Return the name to show; with wildcards, one name for all steps of a profiler."""
    return "ProfilerStep*" if with_wildcard and name.startswith("ProfilerStep#") else name


class MemRecordsAcc:
    """Records of memory by time."""

    def __init__(self, mem_records: Iterable[Sequence[Any]]) -> None:
        self._mem_records = sorted(mem_records, key=lambda record: record[0].start_ns())

    def in_interval(self, start_ns: int, end_ns: int) -> Iterable[Any]:
        """Return the records in an interval of time."""
        return (record for record in self._mem_records if start_ns <= record[0].start_ns() <= end_ns)
