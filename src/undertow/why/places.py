"""Places in the user's program: the innermost line of user code on the stack, and the user's lines that called it."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from itertools import islice
from types import CodeType, FrameType
from typing import Any


class Place:
    """One line of the user's program, with the exact span of the expression that ran and the user's callers around it.

    Places are interned by `Places`: the same expression reached through the same calls is the same object.
    """

    __slots__ = ("column", "end_column", "end_line", "file", "function", "line", "outer")

    def __init__(self, file: str, line: int, function: str, span: tuple[int | None, ...], outer: Place | None) -> None:
        self.file = file
        self.line = line
        self.function = function
        self.end_line, self.column, self.end_column = span
        self.outer = outer  # the user's line that called this one, directly or through library code

    def chain(self) -> Iterator[Place]:
        """Return this place, then its callers, innermost first."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.outer

    @property
    def key(self) -> tuple[str, int]:
        """File and line, for comparing places whatever led to them."""
        return self.file, self.line

    def __repr__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


def variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a running function, without keeping old values alive.

    Up to Python 3.12 a frame caches the dict of `f_locals`, and with it old values. The cache is emptied here, unless
    the function itself uses `locals()` or the like.
    """
    found = frame.f_locals
    code = frame.f_code
    known = dict(found)
    if type(found) is dict and code.co_flags & CO_OPTIMIZED and _ASKS_ITSELF.isdisjoint(code.co_names):
        found.clear()
    return known


_ASKS_ITSELF = frozenset({"locals", "vars", "dir", "eval", "exec", "f_locals"})
_GENERATED = ("<attrs", "<eval_with_key", "<lambdifygenerated", "<frozen")  # code that libraries generate


def _library_folders(packages: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the folders whose code is not the user's: Python, installed packages, and the watched engine."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(os.path.dirname(os.path.abspath(package.__file__)) for package in packages)
    return tuple(sorted(os.path.realpath(folder) + os.sep for folder in folders))


class Places:
    """Finds and interns places. `packages` are libraries outside Python's own folders (undertow, a torch checkout)."""

    def __init__(self, packages: tuple[Any, ...] = (), script: str | None = None) -> None:
        self.folders = _library_folders(packages)
        self.script = script
        self.outermost: FrameType | None = None  # frames outside this one are ignored
        # Keyed by id, since code objects are slow to hash. `_codes` keeps them alive, so that no id is reused.
        self._is_user: dict[int, bool] = {}
        self._known: dict[tuple[int, int, int], Place] = {}
        self._codes: list[CodeType] = []

    def is_user(self, code: CodeType) -> bool:
        """Whether a code object belongs to the user's program."""
        answer = self._is_user.get(id(code))
        if answer is None:
            answer = self._is_user[id(code)] = self.is_user_file(code.co_filename)
            self._codes.append(code)
        return answer

    def is_user_file(self, file: str) -> bool:
        """Whether a file belongs to the user's program."""
        if file == self.script:
            return True
        if file.startswith("<"):  # code without a file: the user's if source text is cached for it, as for notebooks
            known = file in linecache.cache and not file.startswith(_GENERATED)
            return known or file.startswith("<ipython") or file == "<stdin>"
        return not os.path.realpath(file).startswith(self.folders)

    def here(self, depth: int = 1) -> Place | None:
        """Return the user's line that led to the caller's caller; None if there is none (a finalizer, an idle thread)."""
        return self.of(sys._getframe(depth + 1))

    def of(self, frame: FrameType | None, known: FrameType | None = None, outer: Place | None = None) -> Place | None:
        """Return the place of a frame: its innermost user line, with the user's callers.

        known: a frame further out whose place is `outer`, which saves the rest of the walk.
        """
        is_user, outermost = self._is_user, self.outermost
        found: list[tuple[CodeType, int, int]] = []
        place: Place | None = None
        while frame is not None and frame is not outermost:
            if frame is known:
                place = outer
                break
            code = frame.f_code
            user = is_user.get(id(code))
            if user or (user is None and self.is_user(code)):
                found.append((code, frame.f_lasti, frame.f_lineno))
            frame = frame.f_back
        places = self._known
        for code, instruction, line in reversed(found):
            key = id(code), instruction, id(place)
            inner = places.get(key)
            if inner is None:
                inner = places[key] = Place(code.co_filename, line, code.co_name, _span(code, instruction), place)
            place = inner
        return place

    def of_line(self, file: str, line: int, function: str = "", outer: Place | None = None) -> Place:
        """Return a place known by its line only."""
        return Place(file, line, function, (None, None, None), outer)


def _span(code: CodeType, instruction: int) -> tuple[int | None, ...]:
    """Return the span of the running expression: (end line, column, end column)."""
    position = next(islice(code.co_positions(), instruction // 2, None), None)
    return (None, None, None) if position is None else (position[1], position[2], position[3])
