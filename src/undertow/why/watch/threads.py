"""Other threads: those that the program starts are watched as well, one operation at a time; other processes are not.

What is under way in a thread (`Now`) is its own. Records are shared, so whoever writes them takes turns; a thread that
waits in vain, because a hook waits for it in turn, goes on unwatched for that operation.
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
_PATIENCE = 0.2  # seconds


def _leave_alone(watcher: weakref.ref[Watcher]) -> None:
    """In another process (a DataLoader's worker) nobody reads the records, and a lock may be held for ever."""
    found = watcher()
    if found is not None:
        found.on = False


class Now(threading.local):
    """What is under way in one thread."""

    def __init__(self) -> None:
        self.busy = NEVER  # above 0: library code runs, or nobody watches
        self.mode_on = False
        self.off: Place | None = None  # what switched gradient mode off
        self.firing: int | None = None  # the hook that runs
        self.backward: int | None = None  # the backward pass that runs
        self.calls: list[Running] = []  # the modules that run, the innermost last
        self.stepping: list[tuple[Any, dict[int, tuple[Any, int]]]] = []  # optimizers, and the versions that they found


class Turns:
    """A lock that costs nothing while there is one thread, and that nobody waits for without end."""

    def __init__(self) -> None:
        self.needed = False
        self._lock = threading.RLock()

    def take(self) -> bool:
        """Wait for one's turn; whether it came, and `give` has to be called."""
        return self.needed and self._lock.acquire(timeout=_PATIENCE)

    def give(self) -> None:
        self._lock.release()


class Threads:
    """Watches the threads that are started while the watcher is on."""

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
                self.watcher.turns.needed = True
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
                with watcher.quiet:
                    watcher.trace.thread_errors.append(watcher.failed(error))
                raise
            finally:
                watcher.now.busy = NEVER
