"""The watcher: record in a trace what a program does with autograd.

It uses only names that PyTorch and undertow share, so one watcher serves both engines. It observes a program in two
ways:

- A function mode gets every torch function, method and tensor attribute (`calls`). New graph nodes are found through
  `next_functions` (`graph`).
- Patched functions cover what a mode does not get: modules and their hooks (`modules`, `hooks`), backward passes
  (`backward`), optimizers (`optimizers`), gradient modes (`modes`), deepcopy, Parameter and custom Functions
  (`copies`), other threads (`threads`), collectives and DistributedDataParallel (`ranks`).

Library code inside one of these calls is not recorded. User code inside library code (a hook, a closure) is.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place, Places
from undertow.why.trace import ErrorRecord, TensorRecord, Trace
from undertow.why.watch.backward import Backwards
from undertow.why.watch.calls import Calls
from undertow.why.watch.copies import Copies
from undertow.why.watch.engine import engine_of
from undertow.why.watch.graph import Graph
from undertow.why.watch.hooks import Hooks
from undertow.why.watch.later import LaterSteps
from undertow.why.watch.modes import Modes
from undertow.why.watch.modules import ModuleCalls
from undertow.why.watch.names import Names
from undertow.why.watch.optimizers import Optimizers
from undertow.why.watch.patches import Patches
from undertow.why.watch.ranks import Ranks
from undertow.why.watch.records import Modules, Tensors
from undertow.why.watch.threads import NEVER, Now, SharedLock, Threads

if TYPE_CHECKING:
    from undertow.why.page.recorder import Recorder
    from undertow.why.ranks.journal import Journal

DEFAULT_LIMIT = 300_000  # operations; about half a gigabyte of records


class Watcher:
    """Records one engine: `with Watcher(torch) as watcher: ...`, then `watcher.trace`.

    script: the program's file, which counts as user code in any folder. limit: the number of operations after which
    recording ends (`trace.complete` is then False). recorder: receives the gradients of passes and steps, for the page.
    steps: raise `EnoughSteps` after this number of optimizer steps. sample: after this number, watch only for NaN in
    gradients. journal: the journal of this rank, if there are several.
    """

    def __init__(
        self, torch: Any, script: str | None = None, limit: int = DEFAULT_LIMIT, recorder: Recorder | None = None,
        steps: int | None = None, sample: int | None = None, journal: Journal | None = None,
    ) -> None:  # fmt: skip
        self.engine = engine_of(torch)
        self.trace = Trace(engine=self.engine.name, script=script)
        self.places = Places((sys.modules["undertow"], torch), script)
        self.tensors = Tensors(self.trace, self.engine)
        self.modules = Modules(self.trace, self.engine)
        self.limit = limit
        self.recorder = recorder
        self.steps, self.sample = steps, sample
        self.later: LaterSteps | None = None  # set when sampling no longer watches everything
        self.on = False
        self.now = Now()
        self.lock = SharedLock()
        self.patches = Patches()
        self.names = Names(self)
        self.graph = Graph(self)
        self.calls = Calls(self)
        self.hooks = Hooks(self)
        self.backwards = Backwards(self)
        self.module_calls = ModuleCalls(self)
        self.optimizers = Optimizers(self)
        self.modes = Modes(self)
        self.copies = Copies(self)
        self.threads = Threads(self)
        self.ranks = Ranks(self, journal)

    # --- switching on and off

    def start(self) -> None:
        self.on, self.busy = True, 1
        self.gc_thresholds = gc.get_threshold()
        if self.gc_thresholds[0]:  # an operation makes about ten records, which must not cause more collections
            gc.set_threshold(self.gc_thresholds[0] * _RECORDS_PER_OBJECT, *self.gc_thresholds[1:])
        parts: tuple[Any, ...] = (
            self.engine, self.modes, self.hooks, self.backwards, self.module_calls, self.optimizers, self.copies,
            self.threads, self.ranks,
        )  # fmt: skip
        for part in parts:
            part.install(self.patches)
        self.calls.mode.__enter__()
        self.mode_on = True
        self.busy = 0

    def stop(self) -> None:
        """End recording. Hooks that stay registered behave as if they had never been wrapped."""
        self.optimizers.uninstall()
        self.ranks.end()
        if self.later is None:
            self._end_recording()
        elif self.mode_on:  # it was not the innermost mode when recording ended
            self.calls.mode.__exit__(None, None, None)
            self.mode_on = False

    def _end_recording(self) -> None:
        self.on = False
        if self.later is None or self.engine.innermost_mode() is self.calls.mode:
            self.calls.mode.__exit__(None, None, None)
            self.mode_on = False
        self.engine.uninstall()
        self.module_calls.uninstall()
        self.patches.undo()
        gc.set_threshold(*self.gc_thresholds)

    def stepped(self, done: int) -> None:
        """Count an optimizer's steps, which may end the program or the full watch."""
        if self.steps is not None and done >= self.steps:
            self.trace.complete = False
            raise EnoughSteps
        if self.sample is not None and done >= self.sample and self.later is None and self.on:
            self.later = LaterSteps(self, done)
            self.trace.complete = False
            self._end_recording()

    def __enter__(self) -> Watcher:
        self.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self.trace.error = self.failed(error)
        self.stop()

    def failed(self, error: BaseException) -> ErrorRecord:
        """Record the exception that ended the program or one of its threads."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        lines = [line for _, line in traceback.walk_tb(error.__traceback__)]
        place: Place | None = None
        for frame, line in zip(frames, lines):
            if self.places.is_user(frame.f_code):
                place = self.places.of_line(frame.f_code.co_filename, line, frame.f_code.co_name, place)
        for frame in frames:
            if self.places.is_user(frame.f_code):
                self.names.note(frame)
        return ErrorRecord(
            self.trace.tick(), type(error).__name__, str(error), place, self.backwards.raised(error),
            self.hooks.firings.last,
        )  # fmt: skip

    # --- shared by all parts

    @property
    def busy(self) -> int:
        """Above 0 while library code runs in this thread, or if the thread is not watched."""
        return self.now.busy if self.on else NEVER

    @busy.setter
    def busy(self, depth: int) -> None:
        self.now.busy = depth

    @property
    def mode_on(self) -> bool:
        """Whether the function mode is active in this thread."""
        return self.now.mode_on

    @mode_on.setter
    def mode_on(self, on: bool) -> None:
        self.now.mode_on = on

    @property
    def off(self) -> Place | None:
        """The line that switched gradient mode off in this thread."""
        return self.now.off

    @off.setter
    def off(self, place: Place | None) -> None:
        self.now.off = place

    @property
    def firing(self) -> int | None:
        """The firing of a hook that runs in this thread."""
        return self.now.firing

    @firing.setter
    def firing(self, number: int | None) -> None:
        self.now.firing = number

    @property
    def in_thread(self) -> bool:
        """Whether this thread is watched and the watcher is on."""
        return self.busy < NEVER

    @property
    def watching(self) -> bool:
        """Whether user code runs in this thread, and is to be recorded."""
        return not self.busy

    def here(self) -> Place | None:
        """Return the user's line that runs now."""
        calls = self.now.calls
        if not calls:
            return self.places.of(sys._getframe(1))
        inner = calls[-1]
        return self.places.of(sys._getframe(1), inner.frame, inner.record.place)

    def caller(self, function: Any = None) -> FrameType | None:
        """Return the frame that called into the engine, past the watcher, the engine's dispatch and the function."""
        own = getattr(function, "__code__", None)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (frame.f_code.co_filename.endswith(_MACHINERY) or frame.f_code is own):
            frame = frame.f_back
        return frame

    def called_by_user(self, function: Any = None) -> bool:
        """Whether user code called into the engine directly, not through library code."""
        frame = self.caller(function)
        return frame is not None and self.places.is_user(frame.f_code)

    def see(self, tensor: Any, place: Place | None) -> TensorRecord:
        """Return the record of a tensor, made now with its part of the graph if the tensor is new to the watcher."""
        record = self.tensors.find(tensor)
        if record is None:
            record = self.tensors.make(tensor, place)
            self.graph.adopt(tensor, record, place)
            if record.maker is None and record.requires_grad:
                self.copies.recognise(tensor, record, place)
        return record

    def take_mode_off(self) -> bool:
        """Take the function mode off for library code, if it is the innermost one. Return whether it was."""
        if not self.mode_on or self.engine.innermost_mode() is not self.calls.mode:
            return False
        self.calls.mode.__exit__(None, None, None)
        self.mode_on = False
        return True

    def put_mode_on(self) -> None:
        """Undo `take_mode_off`."""
        self.calls.mode.__enter__()
        self.mode_on = True

    @property
    def unrecorded(self) -> _Unrecorded:
        """Return a context in which nothing is recorded and errors of the watcher are not raised."""
        return _Unrecorded(self)

    @property
    def silent(self) -> _Silent:
        """Return a context in which library code runs unrecorded; exceptions pass through."""
        return _Silent(self)

    @contextmanager
    def recording_user_code(self) -> Iterator[None]:
        """Watch user code that runs inside library code, for the block."""
        before, self.busy = self.busy, 0
        push = not self.mode_on
        if push:
            self.calls.mode.__enter__()
            self.mode_on = True
        try:
            yield
        finally:
            if push:
                self.calls.mode.__exit__(None, None, None)
                self.mode_on = False
            self.busy = before

    def record_problem(self, error: Exception) -> None:
        """Record a failure of the watcher itself; the program continues."""
        if len(self.trace.problems) < 20:
            self.trace.problems.append("".join(traceback.format_exception(error)))

    def stop_recording(self) -> None:
        """Stop recording, because the limit is reached."""
        self.trace.complete = self.on = False


class EnoughSteps(BaseException):
    """Ends the program after the number of optimizer steps to watch."""


class _Unrecorded:
    """See `Watcher.unrecorded`."""

    __slots__ = ("modes_off", "locked", "watcher")

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.modes_off: Any = None

    def __enter__(self) -> None:
        watcher = self.watcher
        self.locked = watcher.lock.acquire()
        watcher.busy += 1
        if watcher.mode_on:  # the mode would also get the calls of the watcher itself
            self.modes_off = watcher.engine.without_modes()
            self.modes_off.__enter__()
            watcher.mode_on = False

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if self.modes_off is not None:
            self.modes_off.__exit__(None, None, None)
            self.watcher.mode_on = True
        self.watcher.busy -= 1
        if self.locked:
            self.watcher.lock.release()
        if isinstance(error, Exception):
            self.watcher.record_problem(error)
            return True
        return False


class _Silent:
    """See `Watcher.silent`."""

    __slots__ = ("mode_off", "watcher")

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def __enter__(self) -> None:
        self.watcher.busy += 1
        self.mode_off = self.watcher.take_mode_off()

    def __exit__(self, *exception: Any) -> None:
        if self.mode_off:
            self.watcher.put_mode_on()
        self.watcher.busy -= 1


_RECORDS_PER_OBJECT = 10


_MACHINERY = tuple(
    name.replace("/", os.sep)
    for name in (
        "undertow/why/watch/watcher.py", "undertow/why/watch/calls.py", "undertow/why/watch/hooks.py",
        "undertow/_src/overrides/torch_function.py", "undertow/overrides.py", "torch/overrides.py",
        "undertow/_src/engine/methods.py", "undertow/_src/ops/public.py", "undertow/autograd/variable.py",
        "torch/_tensor.py",
    )
)  # fmt: skip
