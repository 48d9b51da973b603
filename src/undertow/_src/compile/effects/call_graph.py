"""The call graph of an analysis: which functions are called, and what each of their statements does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from undertow._src.compile.effects.findings import Effect, Place, Read
from undertow._src.compile.effects.values import EMPTY, Atom, Scope, Value


@dataclass(slots=True, eq=False, repr=False)
class Notes:
    """What one statement does and depends on by itself, without the statements inside it and the functions it calls."""

    path: tuple[Any, ...] = ()  # the statement, inside those around it
    effects: dict[Any, Effect] = field(default_factory=dict)
    reads: dict[Any, Read] = field(default_factory=dict)
    holds: dict[Any, Read] = field(default_factory=dict)
    places: dict[Any, Place] = field(default_factory=dict)
    names: dict[tuple[int, str], tuple[dict[str, Any], str]] = field(default_factory=dict)  # looked up in modules
    objects: dict[int, Any] = field(default_factory=dict)  # of users' classes, such classes, and cached functions
    writes: bool = False  # into tensors
    may_write: bool = False  # because it calls code that is not analyzed
    draws: bool = False  # from undertow's random streams
    changes: set[Atom] = field(default_factory=set)  # objects that the code itself made
    rebinds: set[str] = field(default_factory=set)  # variables of functions around the current one
    calls: dict[Frame, None] = field(default_factory=dict)
    cached: dict[Frame, Effect] = field(default_factory=dict)  # calls of `lru_cache`, and their effect if not pure


@dataclass(slots=True, eq=False, repr=False)
class Frame:
    """A call of a function, as analyzed: the values that its variables may have, and what its statements do."""

    node: Any
    function: FunctionType
    scope: Scope
    owner: Any  # kept alive, because frames are found by its id
    caller: Frame | None
    decides: bool = False  # whether code after tests that fail is left out; see `certain_tests`
    is_traced: bool = False  # whether it is called in traces only, as far as the analysis knows
    is_cut: bool = False  # whether code that did not run there is left out; see `coverage`
    dirty: bool = True  # whether something that it read has grown since it was analyzed
    is_pure: bool | None = None  # None until it is needed
    returns: Value = EMPTY
    readers: set[Frame | None] = field(default_factory=set)  # the calls that have used its result
    path: list[Any] = field(default_factory=list)  # the statement that is being analyzed, inside those around it
    notes: dict[tuple[Any, ...], Notes] = field(default_factory=dict)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        self.depth = 0 if self.caller is None else self.caller.depth + 1

    def at(self, path: tuple[Any, ...]) -> Notes:
        """Return the notes of the statement with this path."""
        found = self.notes.get(path)
        if found is None:
            found = self.notes[path] = Notes(path)
        return found

    def within(self, owner: Any, is_traced: bool | None = None) -> Frame | None:
        """Return the frame of a function, if this frame is it or was called by it, directly or indirectly."""
        frame: Frame | None = self
        while frame is not None and (frame.owner is not owner or frame.is_traced is (not is_traced)):
            frame = frame.caller
        return frame


class Position:
    """Where the analysis is: in which call of a function, and at which statement and expression."""

    __slots__ = ("frame", "node", "notes", "steps")

    def __init__(self) -> None:
        self.frame: Frame | None = None  # None before the first call
        self.notes = Notes()  # the effects of the statement; at first, of calling the function itself
        self.node: Any = None
        self.steps = 0  # the number of nodes that were evaluated so far

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
        """Add the calls that read a set that has grown."""
        for frame in readers:
            if frame is not None and not frame.dirty:
                frame.dirty = True
                self._frames.append(frame)

    def take(self) -> list[Frame]:
        """Empty the list, and return its calls, the innermost first."""
        frames, self._frames = self._frames, []
        return sorted(frames, key=lambda frame: -frame.depth)
