"""`torch.profiler`: profiling with a schedule. `autograd/profiler.py` describes what is timed."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Self

from undertow.autograd import profiler as _profiler
from undertow.autograd.profiler import KinetoStepTracker as KinetoStepTracker
from undertow.autograd.profiler import ProfilerActivity as ProfilerActivity
from undertow.autograd.profiler import record_function as record_function

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerAction(Enum):
    """The action of the profiler at a step of the program."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be profiled."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a schedule of cycles: skip `wait` steps, discard `warmup` steps, record `active` steps.

    There are `repeat` cycles; with 0, they never end.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action_at(step: int) -> ProfilerAction:
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
        record_shapes: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.activities = set(activities) if activities else supported_activities()
        self.schedule = schedule if schedule is not None else (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready, self.record_shapes = on_trace_ready, record_shapes
        self.step_num = 0
        self._running: _profiler.profile | None = None
        self._found = _profiler.EventList()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start according to the schedule."""
        self._apply(self.schedule(self.step_num))

    def stop(self) -> None:
        """Stop, and call `on_trace_ready` if a recording is running."""
        if self._running is not None:
            self._finish(hand_over=True)

    def step(self) -> None:
        """Mark the end of a step of the program."""
        before = self.schedule(self.step_num)
        self.step_num += 1
        if before is ProfilerAction.RECORD_AND_SAVE and self._running is not None:
            self._finish(hand_over=True)
        self._apply(self.schedule(self.step_num))

    def _apply(self, action: ProfilerAction) -> None:
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and self._running is None:
            self._running = _profiler.profile(record_shapes=self.record_shapes)
            self._running.__enter__()
        if not recording and self._running is not None:
            self._finish(hand_over=False)

    def _finish(self, hand_over: bool) -> None:
        assert self._running is not None
        self._running.__exit__(None, None, None)
        self._found, self._running = self._running._events, None
        if hand_over and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def events(self) -> _profiler.EventList:
        """Return all calls of the last cycle."""
        return self._running._events if self._running is not None else self._found

    def key_averages(self, group_by_input_shape: bool = False, **options: Any) -> _profiler.EventList:
        """Return one row per name."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: str) -> None:
        """Write the last cycle in the format of chrome://tracing."""
        self.events().export_chrome_trace(path)

    def add_metadata(self, key: str, value: str) -> None:
        """Do nothing: traces have no metadata."""

    add_metadata_json = add_metadata


def kineto_available() -> bool:
    """Whether PyTorch's recorder Kineto is available: never, undertow has its own."""
    return False
