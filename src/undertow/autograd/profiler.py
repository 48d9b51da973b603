"""`torch.autograd.profiler`: the time of each function that a program calls, and of the blocks that it names.

A profiler times public functions as the program calls them (including what they call), blocks of `record_function`, and
the nodes of backward passes. A node's time begins when the node before it ends.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from time import perf_counter_ns as perf_counter_ns
from typing import Any, Self

from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import warn as warn
from undertow._src.engine.node import Node
from undertow._src.engine.profiling.kinds import MEMORY_EVENT_NAME as MEMORY_EVENT_NAME
from undertow._src.engine.profiling.kinds import OUT_OF_MEMORY_EVENT_NAME as OUT_OF_MEMORY_EVENT_NAME
from undertow._src.engine.profiling.kinds import DeviceType as DeviceType
from undertow._src.engine.profiling.kinds import EnforceUnique as EnforceUnique
from undertow._src.engine.profiling.kinds import KinetoStepTracker as KinetoStepTracker
from undertow._src.engine.profiling.kinds import ProfilerActivity as ProfilerActivity
from undertow._src.engine.profiling.kinds import ProfilerConfig as ProfilerConfig
from undertow._src.engine.profiling.kinds import ProfilerState as ProfilerState
from undertow._src.engine.profiling.kinds import RecordScope
from undertow._src.engine.profiling.kinds import _ExperimentalConfig as _ExperimentalConfig
from undertow._src.engine.profiling.kinds import emit_itt as emit_itt
from undertow._src.engine.profiling.measures import OPERATORS, calling_lines, operations
from undertow._src.tensor.core import TensorCore
from undertow.autograd.profiler_util import EventList as EventList
from undertow.autograd.profiler_util import FunctionEvent as FunctionEvent
from undertow.autograd.profiler_util import FunctionEventAvg as FunctionEventAvg
from undertow.autograd.profiler_util import MemRecordsAcc as MemRecordsAcc
from undertow.autograd.profiler_util import _filter_name as _filter_name
from undertow.autograd.profiler_util import _filter_stack_entry as _filter_stack_entry
from undertow.autograd.profiler_util import _rewrite_name as _rewrite_name
from undertow.futures import Future as Future
from undertow.overrides import TorchFunctionMode

__all__ = [
    "EnforceUnique", "KinetoStepTracker", "emit_itt", "emit_nvtx", "load_nvprof", "parse_nvprof_trace", "profile",
    "record_function",
]  # fmt: skip

log = logging.getLogger(__name__)
_recording: list[profile] = []


class record_function(contextlib.ContextDecorator):
    """Name a part of the program, as a `with` block or a decorator. Without a running profiler it does nothing.

    >>> with torch.autograd.profiler.record_function("forward"):
    ...     y = torch.ones(2) + 1
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.run_callbacks_on_exit = True
        self.record: object = None
        self._open: list[tuple[profile, FunctionEvent]] = []

    def __enter__(self) -> Self:
        self.record = self._open
        owner = _recording[-1] if _recording else None
        if owner is not None and owner._thread == threading.get_ident():
            self._open.append((owner, owner._begin(self.name, scope=RecordScope.USER_SCOPE.value)))
        return self

    def __exit__(self, *exception: object) -> None:
        if self._open and self.run_callbacks_on_exit:
            owner, event = self._open.pop()
            owner._end(event)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """End the part when a future is done, not with the block. Return a future that is done after that."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        if self.record is None:
            raise AssertionError("Expected record to be set: enter the block first")
        self.run_callbacks_on_exit = False

        def end(done: Any) -> Any:
            if self._open:
                owner, event = self._open.pop()
                owner._end(event)
            return done.value()

        return fut.then(end)


def _record_function_with_args_enter(name: str, *args: object) -> record_function:
    """Begin a named part of the program, for `_record_function_with_args_exit` to end."""
    return record_function(name).__enter__()


def _record_function_with_args_exit(record: record_function) -> None:
    record.__exit__()


class profile:
    """Time the calls inside the `with` block.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(2).exp()
    >>> [event.key for event in prof.key_averages()]
    ['aten::ones', 'aten::exp']
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False,
        with_modules: bool = False, use_kineto: bool = False, use_cpu: bool = True, experimental_config: object = None,
        acc_events: bool = False, custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None, activity_filters: object = None,
    ) -> None:  # fmt: skip
        self.enabled, self.use_cuda, self.use_device = enabled, False, None
        if use_cuda:
            warn("The attribute `use_cuda` will be deprecated soon, use `use_device = 'cuda'` instead.", FutureWarning)
        if not use_cpu:
            raise AssertionError("Device-only events supported only with Kineto; undertow records the CPU's")
        if use_cuda or use_device not in (None, "cpu"):
            warn("CUDA is not available, disabling CUDA profiling")
        self.record_shapes, self.with_flops, self.profile_memory = (
            record_shapes or with_flops,
            with_flops,
            profile_memory,
        )
        self.with_stack, self.with_modules, self.use_cpu, self.acc_events = (
            with_stack,
            with_modules,
            use_cpu,
            acc_events,
        )
        self.experimental_config = experimental_config or _ExperimentalConfig()
        self.custom_trace_id_callback, self.trace_id = custom_trace_id_callback, ""
        self.kineto_results = None
        self.entered = self._collecting = False
        self._events = EventList(profile_memory=profile_memory, with_flops=with_flops)
        self._events._tree_built = True  # calls note their parents as they begin
        self._open: dict[int, list[FunctionEvent]] = {}
        self._node_ended = 0.0
        self._mode = _Watching(self)

    # --- a block

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.enabled and self in _recording:
            self._stop_trace()

    def _prepare_trace(self) -> None:
        self.entered = True
        self.trace_id = self.create_trace_id()

    def _start_trace(self) -> None:
        self.entered = self._collecting = True
        self._thread = threading.get_ident()  # only what this thread does is recorded
        _recording.append(self)
        slow_path.listeners.append(self._node_ran)
        self._node_ended = perf_counter_ns() / 1e3
        self._mode.__enter__()

    def _stop_trace(self) -> None:
        self._mode.__exit__(None, None, None)
        slow_path.listeners.remove(self._node_ran)
        _recording.remove(self)
        self._collecting = False

    def default_trace_id(self) -> str:
        """Return a new id for the results of one block."""
        return f"{perf_counter_ns():032X}"

    def create_trace_id(self) -> str:
        return self.custom_trace_id_callback() if self.custom_trace_id_callback else self.default_trace_id()

    def config(self, create_trace_id: bool = False) -> ProfilerConfig:
        """Return the profiler's settings."""
        if create_trace_id:
            self.trace_id = self.create_trace_id()
        return ProfilerConfig(
            ProfilerState.CPU, self.record_shapes, self.profile_memory, self.with_stack, self.with_flops, self.with_modules,
            self.experimental_config, self.trace_id,
        )  # fmt: skip

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Pause or resume recording inside the block."""
        self._collecting = enabled if ProfilerActivity.CPU in set(activities) else self._collecting

    # --- events

    def _begin(self, name: str, shapes: object = None, scope: int = 0) -> FunctionEvent:
        now, thread = perf_counter_ns() / 1e3, threading.get_ident()
        event = FunctionEvent(
            len(self._events) + 1, _rewrite_name(name, True), thread, now, now, trace_name=name, scope=scope,
            input_shapes=[] if shapes is None else shapes,
            stack=calling_lines() if self.with_stack else [], fwd_thread=0,
            is_user_annotation=scope == RecordScope.USER_SCOPE.value,
        )  # fmt: skip
        around = self._open.setdefault(thread, [])
        if around:
            around[-1].append_cpu_child(event)
            event.set_cpu_parent(around[-1])
        around.append(event)
        if self._collecting:
            self._events.append(event)
        return event

    def _end(self, event: FunctionEvent) -> None:
        event.time_range.end = perf_counter_ns() / 1e3
        around = self._open.get(event.thread, [])
        if event in around:
            del around[around.index(event) :]

    def _node_ran(self, node: Node, gradients: Any, results: Any) -> None:
        """Record a node of a backward pass that has just run: an event of the engine, and inside it one of the node."""
        now, name = perf_counter_ns() / 1e3, node._node_name()
        thread = threading.get_ident()
        start = max(self._node_ended, *[event.time_range.start for event in self._open.get(thread, ())], 0.0)
        number = -1 if name.endswith("AccumulateGrad") else node._sequence_nr()
        outer = self._begin(f"autograd::engine::evaluate_function: {name}")
        inner = self._begin(name, scope=RecordScope.BACKWARD_FUNCTION.value)
        for event in (inner, outer):
            self._end(event)
            event.time_range.start, event.time_range.end, event.sequence_nr = start, now, number
        self._node_ended = perf_counter_ns() / 1e3

    def _ensure_function_events(self) -> EventList:
        if self in _recording:
            raise RuntimeError("Profiler didn't finish running")
        return self._events

    @property
    def function_events(self) -> EventList:
        """All calls, in the order of their beginning."""
        return self._ensure_function_events()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return one row per name."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """Return all calls as one row."""
        return self.function_events.total_average()

    def table(self, *args: Any, **options: Any) -> str:
        """Return the calls as text."""
        return self.function_events.table(*args, **options)

    def export_chrome_trace(
        self, path: str, metadata: dict[str, str] | None = None, use_python_export: bool = False
    ) -> None:
        """Write the calls in the format of chrome://tracing."""
        self.function_events.export_chrome_trace(path, metadata or {})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the call stacks; requires `with_stack=True`."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    @property
    def self_cpu_time_total(self) -> float:
        return self.function_events.self_cpu_time_total

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self in _recording else repr(self.function_events)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self in _recording else str(self.function_events)


class _Watching(TorchFunctionMode):
    """Times every function that a program calls."""

    def __init__(self, owner: profile) -> None:
        super().__init__()
        self.owner = owner

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, owner = getattr(func, "__name__", ""), self.owner
        name = OPERATORS.get(name, name)
        # Properties and Python's protocol methods cost little; a backward pass is timed by its nodes.
        if name.startswith("__") or name == "backward" or not owner._collecting:
            owner._node_ended = perf_counter_ns() / 1e3
            return func(*args, **(kwargs or {}))
        shapes = None
        if owner.record_shapes:
            shapes = [list(value.shape) if isinstance(value, TensorCore) else [] for value in args]
        event = owner._begin(f"aten::{name}", shapes)
        result = None
        try:
            result = func(*args, **(kwargs or {}))
            return result
        finally:
            owner._end(event)
            self._describe(event, name, args, result)

    def _describe(self, event: FunctionEvent, name: str, args: Any, result: object) -> None:
        outputs = [value for value in (result if isinstance(result, (tuple, list)) else [result])
                   if isinstance(value, TensorCore)]  # fmt: skip
        if outputs and outputs[0].grad_fn is not None:
            event.sequence_nr = outputs[0].grad_fn._sequence_nr()
        if self.owner.profile_memory:
            old = {value.untyped_storage().data_ptr() for value in args if isinstance(value, TensorCore)}
            new = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in outputs}
            event.cpu_memory_usage = sum(size for place, size in new.items() if place not in old)
        if self.owner.with_flops:
            event.flops = operations(name, event.input_shapes or [])


# --- other profilers


class OneEvent:
    """Record all that runs inside the block as one event: a compiled step."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        modes, self.owner = local.modes, _recording[-1]
        self.modes, self.collecting = modes.function_modes, self.owner._collecting
        modes.function_modes = [mode for mode in modes.function_modes if not isinstance(mode, _Watching)]
        self.event = self.owner._begin(self.name)
        self.owner._collecting = False

    def __exit__(self, *exc: object) -> None:
        self.owner._collecting = self.collecting
        self.owner._end(self.event)
        local.modes.function_modes = self.modes


def is_watching() -> bool:
    """Return whether a profiler is told of the functions that this thread calls."""
    return bool(_recording) and any(isinstance(mode, _Watching) for mode in local.modes.function_modes)


def is_recording_with(profiler: profile) -> bool:
    """Whether this profiler is running."""
    return profiler in _recording


def is_recording() -> bool:
    """Whether a profiler is running."""
    return bool(_recording)


def kineto_available() -> bool:
    """Whether PyTorch's recorder Kineto is available: never, undertow has its own."""
    return False


def _set_is_profiler_enabled(enable: bool) -> None:
    """Set whether an external profiler is running."""
    global _is_profiler_enabled
    _is_profiler_enabled = enable


_is_profiler_enabled = False


def _run_on_profiler_start() -> None:
    _set_is_profiler_enabled(True)


def _run_on_profiler_stop() -> None:
    _set_is_profiler_enabled(False)


def _supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU}


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


class emit_nvtx:
    """Mark functions for NVIDIA's profiler, which needs a GPU."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes, self.entered = enabled, record_shapes, False

    def __enter__(self) -> None:
        if self.enabled:
            raise AssertionError("Torch not compiled with CUDA enabled")

    def __exit__(self, *exception: object) -> None:
        pass


def parse_nvprof_trace(path: str) -> list[FunctionEvent]:
    """Return the functions in a file that NVIDIA's profiler wrote while `emit_nvtx` marked them."""
    sqlite3: Any = import_module("sqlite3")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = {row["id"]: row["value"] for row in connection.execute("SELECT _id_ as id, value FROM StringTable")}
        query = (
            "SELECT start.id AS marker, start.name, start.timestamp AS began, end.timestamp AS ended "
            "FROM CUPTI_ACTIVITY_KIND_MARKER AS start INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS end "
            "ON start.id = end.id WHERE start.name != 0 AND end.name = 0"
        )
        found = [
            FunctionEvent(row["marker"], names[row["name"]], 0, row["began"], row["ended"])
            for row in connection.execute(query)
        ]
    return sorted(found, key=lambda event: event.time_range.start)


def load_nvprof(path: str) -> EventList:
    """Return the functions of `parse_nvprof_trace` as an EventList, which makes tables."""
    return EventList(parse_nvprof_trace(path))
