"""The end of a rank's process: if a thread were inside JAX while Python finalizes, the process would abort.

Python ends a thread by force if it returns from C++ to a finalizing interpreter, and C++ then aborts (SIGABRT). So threads
that can be woken are woken and joined. If one is stuck in a collective, the process ends at once, with the exit code
that it would have had.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

_PATIENCE = 1.0  # seconds that collectives under way have to end

_exit = sys.exit
_code = 0


def _noting_exit(status: Any = None, /) -> NoReturn:
    """Call `sys.exit`, which this replaces, and record the exit code."""
    global _code
    _code = 0 if status is None else status if isinstance(status, int) else 1
    _exit(status)


def at_exit(leave: Callable[[], None], is_busy: Callable[[], bool]) -> None:
    """Call `leave` when the process ends; if threads are still busy after that, end without Python's finalization."""
    sys.exit = _noting_exit

    def end() -> None:
        leave()
        until = time.monotonic() + _PATIENCE
        while is_busy() and time.monotonic() < until:
            time.sleep(0.01)
        if is_busy():
            _end_now()

    atexit.register(end)


def _end_now() -> NoReturn:
    """End the process as its finalization would: children and logs first, then what was printed."""
    workers = sys.modules.get("multiprocessing.util")
    if workers is not None:
        workers._exit_function()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(1 if getattr(sys, "last_value", None) is not None else _code)
