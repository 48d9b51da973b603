"""`torch.profiler`: profiling with a schedule. `autograd/profiler.py` describes what is timed."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Self

from undertow._src.base.sites import warn
from undertow.autograd import profiler as _profiler
from undertow.autograd.profiler import DeviceType as DeviceType
from undertow.autograd.profiler import KinetoStepTracker as KinetoStepTracker
from undertow.autograd.profiler import ProfilerActivity as ProfilerActivity
from undertow.autograd.profiler import record_function as record_function

__all__ = [
    "DeviceType", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerAction(Enum):
    """The action of the profiler at a step of the program."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4

    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be profiled."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a schedule of cycles: skip `wait` steps, discard `warmup` steps, record `active` steps.

    There are `repeat` cycles; with 0, they never end.
    """
    least = {"wait": 0, "warmup": 0, "active": 1, "repeat": 0, "skip_first": 0}
    given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    if any(given[name] < number for name, number in least.items()):
        wanted = ", ".join(f"{name}={given[name]} (need >= {number})" for name, number in least.items())
        raise AssertionError(f"Invalid profiler schedule arguments. Got {wanted}.")
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results")

    def action_at(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step / length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action_at


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """Return a function for `on_trace_ready` that writes the trace of each cycle to a folder."""

    def handle(prof: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json"))

    return handle


class profile:
    """Time the functions that are called inside the `with` block.

    With a `schedule`, call `step()` at the end of each step of the program; at the end of each cycle,
    `on_trace_ready(prof)` is called.

    >>> with torch.profiler.profile() as prof:
    ...     y = torch.ones(2).exp()
    >>> [event.key for event in prof.key_averages()]
    ['aten::ones', 'aten::exp']
    """

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None, on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, experimental_config: Any = None, execution_trace_observer: Any = None,
        acc_events: bool = False, use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None, post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:  # fmt: skip
        self.activities = set(activities) if activities is not None else supported_activities()
        if use_cuda is not None:
            warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning)
        if not self.activities & set(ProfilerActivity):
            raise AssertionError(
                "No valid profiler activities found: name ProfilerActivity.CPU, or leave out activities"
            )
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.acc_events = with_flops, with_modules, acc_events
        self.experimental_config, self.execution_trace_observer = experimental_config, execution_trace_observer
        self.custom_trace_id_callback, self.use_device = custom_trace_id_callback, None
        self.schedule = schedule if schedule is not None else (lambda step: ProfilerAction.RECORD)
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.step_rec_fn: record_function | None = None
        self.profiler: _profiler.profile | None = None  # of the current or the last cycle
        self.metadata: dict[str, str] = {}
        if acc_events is False and schedule is not None:
            warn(
                "Warning: Profiler clears events at the end of each cycle. Only events from last cycle will be reported. "
                "Read the events of each cycle in on_trace_ready."
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start according to the schedule."""
        self._pass_on(self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """Stop, and call `on_trace_ready` if a recording is running."""
        self._end_step()
        if self._is_recording():
            self._finish(hand_over=True)

    def step(self) -> None:
        """Mark the end of a step of the program."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE and self._is_recording():
            self._finish(hand_over=True)
        self._pass_on(self.current_action)
        self._begin_step()

    def _is_recording(self) -> bool:
        return self.profiler is not None and _profiler.is_recording_with(self.profiler)

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _pass_on(self, action: ProfilerAction) -> None:
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and not self._is_recording():
            found = self.profiler._events if self.profiler is not None and self.acc_events else None
            self.profiler = _profiler.profile(
                record_shapes=self.record_shapes, profile_memory=self.profile_memory, with_stack=self.with_stack,
                with_flops=self.with_flops, with_modules=self.with_modules, acc_events=self.acc_events,
                experimental_config=self.experimental_config, custom_trace_id_callback=self.custom_trace_id_callback,
            )  # fmt: skip
            if found is not None:
                self.profiler._events = found
            self.profiler.__enter__()
        if not recording and self._is_recording():
            self._finish(hand_over=False)

    def _finish(self, hand_over: bool) -> None:
        self._found("stopping").__exit__(None, None, None)
        if hand_over and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _found(self, action: str) -> _profiler.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {action}: start it, or enter its block")
        return self.profiler

    def events(self) -> _profiler.EventList:
        """Return all calls of the last cycle."""
        return self._found("accessing events").function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> _profiler.EventList:
        """Return one row per name."""
        averages = self._found("getting key averages").key_averages
        return averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        """Write the last cycle in the format of chrome://tracing."""
        self._found("exporting chrome trace").export_chrome_trace(path, metadata=self.metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the call stacks of the last cycle; requires `with_stack=True`."""
        self._found("exporting stacks").export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Pause or resume recording."""
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def add_metadata(self, key: str, value: str) -> None:
        """Write a string into the trace file."""
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Write a value, given as JSON, into the trace file."""
        self.metadata[key] = value

    preset_metadata_json = add_metadata_json


def kineto_available() -> bool:
    """Whether PyTorch's recorder Kineto is available: never, undertow has its own."""
    return False
