"""Where in the user's program something happened: file and line of the first frame outside undertow."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from types import FrameType

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep  # src/undertow/
_COMMANDS = PACKAGE + "cli" + os.sep


class Site:
    """A place in the user's source."""

    __slots__ = ("filename", "lineno", "function")

    def __init__(self, filename: str, lineno: int, function: str) -> None:
        self.filename, self.lineno, self.function = filename, lineno, function

    @property
    def source(self) -> str:
        return linecache.getline(self.filename, self.lineno).strip()

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno}"

    def __repr__(self) -> str:
        return f"Site({self})"


def outside(frame: FrameType | None) -> FrameType | None:
    """Return the first frame from here on that is not undertow's."""
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


def user_site() -> Site | None:
    """Return the line of the user's program that led here."""
    frame = outside(sys._getframe(1))
    if frame is None:
        return None
    return Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def user_stacklevel() -> int:
    """Return the stacklevel with which the caller's warning points at the user's line."""
    level, frame = 2, sys._getframe(1).f_back
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, pointing at the user's line."""
    warnings.warn(message, category, stacklevel=user_stacklevel())


class Once:
    """The warnings already given of those given once per process, and whether to give them always."""

    given: set[str] = set()
    always = False


def warn_once(message: str, category: type[Warning] = UserWarning, words: int = 5) -> None:
    """Warn once per process; messages whose first `words` words are equal count as the same."""
    about = " ".join(message.split(None, words)[:words])
    if Once.always or about not in Once.given:
        Once.given.add(about)
        warn(message, category)


def user_stack(limit: int = 32) -> list[Site]:
    """Return the user's frames that led here, outermost first."""
    stack: list[Site] = []
    frame = outside(sys._getframe(1))
    while frame is not None and len(stack) < limit:
        if frame.f_code.co_filename.startswith(_COMMANDS):  # outside it is Python's start of the command
            break
        if not frame.f_code.co_filename.startswith(PACKAGE):
            stack.append(Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return stack[::-1]


def format_stack(stack: list[Site]) -> str:
    """Return the stack as a traceback prints it."""
    lines = []
    for site in stack:
        lines.append(f'  File "{site.filename}", line {site.lineno}, in {site.function}\n')
        if site.source:
            lines.append(f"    {site.source}\n")
    return "".join(lines)
