"""Record the threads that the program starts, one operation at a time. Other processes are not watched.

The state of a running thread (`Now`) is thread-local. The records are shared, so writing them takes a lock. A thread
that does not get the lock in time, because a hook waits for this thread, runs that operation unrecorded.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.watch.patches import Patches

if TYPE_CHECKING:
    from undertow.why.watch.modules import Running
    from undertow.why.watch.watcher import Watcher

NEVER = 1_000_000  # `busy` of a thread that is not watched
_PATIENCE = 0.2  # seconds to wait for the lock


def _leave_alone(watcher: weakref.ref[Watcher]) -> None:
    """Switch the watcher off in a forked process (a DataLoader's worker).

    Its records would never be read, and a lock may have been held at the fork.
    """
    found = watcher()
    if found is not None:
        found.on = False


class Now(threading.local):
    """The state of one thread."""

    def __init__(self) -> None:
        self.busy = NEVER  # above 0: library code runs, or the thread is not watched
        self.mode_on = False
        self.off: Place | None = None  # the line that switched gradient mode off
        self.firing: int | None = None  # the firing of a hook that runs
        self.backward: int | None = None  # the backward pass that runs
        self.calls: list[Running] = []  # the module calls that run, the innermost last
        # optimizers that step, tensor versions before the step, and whether the function mode was taken off for it
        self.stepping: list[tuple[Any, dict[int, tuple[Any, int]], bool]] = []


class SharedLock:
    """A lock that costs nothing while there is one thread, and that gives up after a timeout."""

    def __init__(self) -> None:
        self.needed = False
        self._lock = threading.RLock()

    def acquire(self) -> bool:
        """Take the lock. Return whether it was taken, so that `release` has to be called."""
        return self.needed and self._lock.acquire(timeout=_PATIENCE)

    def release(self) -> None:
        self._lock.release()


class Threads:
    """Records the threads that are started while the watcher is on."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def install(self, patches: Patches) -> None:
        patches.wrap(threading.Thread, "start", self._started)
        patches.wrap(threading, "excepthook", self._raised)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_leave_alone, weakref.ref(self.watcher)))

    def _started(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def start(thread: threading.Thread) -> None:
            if self.watcher.in_thread:
                self.watcher.lock.needed = True
                run = thread.run
                thread.run = lambda: self._run(run)  # type: ignore[method-assign]
            original(thread)

        return start

    def _raised(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap an excepthook to show a thread's exception without the watcher's frames."""

        def excepthook(args: Any) -> None:
            frame = args.exc_traceback
            while frame is not None:
                while frame.tb_next is not None and frame.tb_next.tb_frame.f_code.co_filename == __file__:
                    frame.tb_next = frame.tb_next.tb_next
                frame = frame.tb_next
            original(args)

        return excepthook

    def _run(self, run: Callable[[], None]) -> None:
        watcher = self.watcher
        with watcher.calls.mode:
            watcher.now.busy, watcher.now.mode_on = 0, True
            try:
                run()
            except Exception as error:
                with watcher.unrecorded:
                    watcher.trace.thread_errors.append(watcher.failed(error))
                raise
            finally:
                watcher.now.busy = NEVER
