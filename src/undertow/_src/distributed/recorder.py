"""The last collectives of this process: number, op, shape, dtype, group, and the user's line of each."""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import Any, NamedTuple

from undertow._src.base import tracer
from undertow._src.base.sites import outside, user_site

KEPT = 256


class Call(NamedTuple):
    """One collective, as this rank called it."""

    group: str
    number: int  # the number of the group's earlier collectives
    op: str
    detail: str  # must be equal on all ranks, besides the op: dtype, number of elements, reduction, root
    what: str  # dtype and shape that the user passed
    site: str

    def __str__(self) -> str:
        return f"{self.op}({self.what}) at {self.site}" if self.what else f"{self.op}() at {self.site}"


ring: deque[Call] = deque(maxlen=KEPT)


def user_line() -> str:
    """Return the line of the user's program that led here."""
    site = user_site()
    return "an unknown line" if site is None else str(site)


def record(group: str, number: int, op: str, detail: str, what: str, site: str) -> Call:
    """Record a collective and return it."""
    tracer.compiling = ""
    call = Call(group, number, op, detail, what, site)
    ring.append(call)
    return call


def whereabouts(thread: int | None = None) -> str:
    """Return where this process is: the line of a thread (of the main one, unless given), and its last collective."""
    frame: Any = sys._current_frames().get(thread or threading.main_thread().ident or 0)
    here = outside(frame)
    while here is not None and here.f_code.co_filename.startswith("<frozen"):
        here = outside(here.f_back)
    place = "an unknown line" if here is None else f"{here.f_code.co_filename}:{here.f_lineno}"
    last = f"; its last collective was {ring[-1]}" if ring else "; it has called no collective"
    return f"is at {place}{last}"


def runs_user_code(thread: int | None) -> bool:
    """Whether one of undertow's own threads runs a function of the user."""
    here = outside(sys._current_frames().get(thread or 0))
    return here is not None and here.f_code.co_filename != threading.__file__
