"""The call graph of an analysis: which functions are called, and what each of their statements does."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from undertow._src.compile.effects.findings import Effect, Place, Read
from undertow._src.compile.effects.values import EMPTY, Atom, Scope, Value


class Notes:
    """What one statement does and depends on by itself, without the statements inside it and the functions it calls."""

    __slots__ = (
        "cached", "calls", "changes", "draws", "effects", "holds", "may_write", "names", "path", "places", "reads",
        "writes",
    )  # fmt: skip

    def __init__(self, path: tuple[Any, ...] = ()) -> None:
        self.path = path  # the statement, inside those around it
        self.effects: dict[Any, Effect] = {}
        self.reads: dict[Any, Read] = {}
        self.holds: dict[Any, Read] = {}
        self.places: dict[Any, Place] = {}
        self.names: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}  # in modules, that are looked up
        self.writes = False  # into tensors
        self.may_write = False  # because it calls what is not analyzed
        self.draws = False  # from undertow's random streams
        self.changes: set[Atom] = set()  # objects that the code itself made
        self.calls: dict[Frame, None] = {}
        self.cached: dict[Frame, Effect] = {}  # calls of functions with an `lru_cache`, and their effect if not pure


class Frame:
    """A call of a function, as analyzed: the values that its variables may have, and what its statements do."""

    __slots__ = (
        "active", "caller", "decides", "depth", "dirty", "function", "is_cut", "is_pure", "is_traced", "node", "notes",
        "owner", "path", "readers", "returns", "scope",
    )  # fmt: skip

    def __init__(self, node: Any, function: FunctionType, scope: Scope, owner: Any, caller: Frame | None) -> None:
        self.node = node
        self.function = function
        self.scope = scope
        self.owner = owner  # kept alive, because frames are found by its id
        self.caller = caller
        self.depth: int = 0 if caller is None else caller.depth + 1
        self.returns: Value = EMPTY
        self.readers: set[Frame | None] = set()  # the calls that have used what it returns
        self.active = False
        self.decides = False  # whether code after tests that fail is left out; see `certain_tests`
        self.is_traced = False  # whether it is called in traces only, as far as is known
        self.is_cut = False  # whether code that did not run there is left out; see `coverage`
        self.dirty = True  # whether something that it read has grown since it was analyzed
        self.path: list[Any] = []  # the statement that is being analyzed, inside those around it
        self.notes: dict[tuple[Any, ...], Notes] = {}
        self.is_pure: bool | None = None  # None until that is asked

    def at(self, path: tuple[Any, ...]) -> Notes:
        """Return the notes of the statement with this path."""
        found = self.notes.get(path)
        if found is None:
            found = self.notes[path] = Notes(path)
        return found

    def within(self, owner: Any, is_traced: bool | None = None) -> Frame | None:
        """Return the frame of a function that this one was called by, directly or not, or is."""
        frame: Frame | None = self
        while frame is not None and (frame.owner is not owner or frame.is_traced is (not is_traced)):
            frame = frame.caller
        return frame


class Position:
    """Where the analysis is: in which call of a function, and at which statement and expression."""

    __slots__ = ("frame", "node", "notes", "steps")

    def __init__(self) -> None:
        self.frame: Frame | None = None  # None before the first call
        self.notes = Notes()  # what the statement does; at first, what calling the function itself does
        self.node: Any = None
        self.steps = 0  # how many nodes were evaluated so far

    def present(self) -> Frame | None:
        """Return the call that is being analyzed."""
        return self.frame


class Worklist:
    """Calls that have to be analyzed again, because something that they read may be more than it was."""

    def __init__(self) -> None:
        self._frames: list[Frame] = []

    def __bool__(self) -> bool:
        return bool(self._frames)

    def add(self, frame: Frame) -> None:
        """Add a call that has not been analyzed yet."""
        self._frames.append(frame)

    def grown(self, readers: Iterable[Frame | None]) -> None:
        """Add the calls that read something which has grown."""
        for frame in readers:
            if frame is not None and not frame.dirty:
                frame.dirty = True
                self._frames.append(frame)

    def take(self) -> list[Frame]:
        """Empty the list, and return what was on it, the innermost calls first."""
        frames, self._frames = self._frames, []
        return sorted(frames, key=lambda frame: -frame.depth)
