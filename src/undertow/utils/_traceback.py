"""Short forms of frames, and tracebacks captured for later."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def shorten_filename(fn: str, *, base: str | None = None) -> str:
    """Return a file's path relative to a folder (this package's, unless given)."""
    base = _HERE if base is None else base
    try:
        shared = os.path.commonpath([base, fn])
    except ValueError:  # on different drives
        return fn
    return fn if shared in ("", os.sep) else fn[len(shared) + 1 :]


def format_frame(frame: Any, *, base: str | None = None, line: bool = False) -> str:
    """Return the location of a frame, after its source line if requested."""
    extra = f"{frame.line}  # " if line else ""
    return f"{extra}{shorten_filename(frame.filename, base=base)}:{frame.lineno} in {frame.name}"


def format_traceback_short(tb: TracebackType) -> str:
    """Return the last frame of a traceback in one line."""
    return format_frame(traceback.extract_tb(tb)[-1])


class CapturedTraceback:
    """The frames of the current stack, to be formatted later.

    >>> from undertow.utils._traceback import CapturedTraceback
    >>> def here():
    ...     return CapturedTraceback.extract()
    >>> here().summary()[-1].name
    'here'
    """

    __slots__ = ("tb", "skip")

    def __init__(self, tb: Any, skip: int = 0) -> None:
        self.tb = tb
        self.skip = skip

    @staticmethod
    def extract(*, script: bool = False, cpp: bool = False, skip: int = 0) -> CapturedTraceback:
        """Return the caller's frames, without the last `skip`."""
        frames = list(traceback.walk_stack(sys._getframe(1)))
        return CapturedTraceback([(frame.f_code, place) for frame, place in frames], skip)

    def cleanup(self) -> None:
        """Release the frames."""
        self.tb = None

    def summary(self) -> traceback.StackSummary:
        """Return the frames as a summary of Python's `traceback`, outermost first."""
        if self.tb is None:
            return traceback.StackSummary()
        kept = self.tb[self.skip :][::-1]
        return traceback.StackSummary.from_list([(code.co_filename, place, code.co_name, None) for code, place in kept])

    def format(self) -> list[str]:
        return traceback.format_list(self.summary())

    @staticmethod
    def format_all(tbs: list[CapturedTraceback]) -> list[list[str]]:
        return [each.format() for each in tbs]

    def __getstate__(self) -> tuple[Any, Any]:
        return None, {"tb": None, "skip": self.skip}


@contextmanager
def report_compile_source_on_error() -> Iterator[None]:
    """Do nothing: PyTorch shows generated code in errors here; undertow's code is in files."""
    yield
