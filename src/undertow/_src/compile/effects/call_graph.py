"""The calls that an analysis went through, and what each statement on the way does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any

from undertow._src.compile.effects.findings import Effect, Effects, Place, Read
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
        self.may_write = False  # for it could not be followed
        self.draws = False  # random numbers of undertow's
        self.changes: set[Atom] = set()  # objects that the code itself made
        self.calls: dict[Frame, None] = {}
        self.cached: dict[
            Frame, Effect
        ] = {}  # functions whose results are kept, and what calling one is if it is not pure


class Frame:
    """One function that was gone through, as called from one place."""

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
        self.readers: set[Frame | None] = set()  # those that have used what it returns
        self.active = False
        self.decides = False  # whether code behind tests that fail is left out; see `certain_tests`
        self.is_traced = False  # whether it is called in traces only, as far as is known
        self.is_cut = False  # whether code that did not run there is left out; see `coverage`
        self.dirty = True  # whether something that it read has grown since it was gone through
        self.path: list[Any] = []  # the statement that is being gone through, inside those around it
        self.notes: dict[tuple[Any, ...], Notes] = {}
        self.is_pure: bool | None = None  # once that was asked

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


class Part:
    """What code does when some of its statements are left out."""

    def __init__(self, reached: list[tuple[Frame | None, Notes]], order: dict[Any, int], returns: bool | None) -> None:
        self.reached = reached
        found: dict[Any, Effect] = {}
        reads: dict[Any, Read] = {}
        holds: dict[Any, Read] = {}
        places: dict[Any, Place] = {}
        looked_up: dict[Any, tuple[dict[str, Any], str]] = {}
        for _, notes in reached:
            looked_up.update(notes.names)
            for key, effect in notes.effects.items():
                found.setdefault(key, effect)
            for key, read in notes.reads.items():
                reads.setdefault(key, read)
            for key, held in notes.holds.items():
                holds.setdefault(key, held)
            for key, place in notes.places.items():
                places.setdefault(key, place)
        names: dict[int, set[str | None]] = {}
        for place in places.values():
            names.setdefault(id(place.owner), set()).add(place.name)
        self.keyed = {key: _finished(found[key], names) for key in sorted(found, key=order.__getitem__)}
        self.effects = Effects(
            effects=tuple(self.keyed.values()),
            returns=returns,
            reads=tuple(reads.values()),
            holds=tuple(holds.values()),
            places=tuple(places.values()),
            writes=any(notes.writes or notes.may_write for _, notes in reached),
            names=tuple(looked_up.values()),
            functions=tuple({id(frame.function): frame.function for frame, _ in reached if frame is not None}.values()),
            draws=any(notes.draws for _, notes in reached),
        )


class Reading:
    """What an analysis found, and by which statements: a graph of frames, from the call of the function itself on.

    Statements go by their ids, and each has the effects of those inside it and of the functions that it calls.
    """

    def __init__(
        self, tops: list[Notes], order: dict[Any, int], returns: bool | None, renewed: Callable[[Any], Reading]
    ) -> None:
        self.tops, self.order, self.returns = tops, order, returns
        self.renewed = renewed  # the same after a definition was taken apart
        self.frames = list(_reached(tops, frozenset()))
        for _, notes in self._notes(frozenset()):
            for frame, effect in notes.cached.items():
                if not _is_pure(frame):
                    key = effect.what, effect.file, effect.line, id(effect.target), effect.entries
                    notes.effects[key] = effect
                    order.setdefault(key, len(order))
                    notes.may_write = notes.may_write or effect.field == "unknown"
        self.whole = self.without(frozenset())

    @property
    def effects(self) -> Effects:
        return self.whole.effects

    def without(self, skipped: frozenset[int]) -> Part:
        """Return the same without the statements that have these ids."""
        return Part(self._notes(skipped), self.order, self.returns)

    def _notes(self, skipped: frozenset[int]) -> list[tuple[Frame | None, Notes]]:
        frames = _reached(self.tops, skipped) if skipped else self.frames
        below = [(frame, notes) for frame in frames for notes in _left(frame, skipped)]
        return [*[(None, top) for top in self.tops], *below]

    @cached_property
    def callers(self) -> dict[Frame, list[tuple[Frame, Notes]]]:
        """The statements that call a function. What was called first of all is called by none."""
        found: dict[Frame, list[tuple[Frame, Notes]]] = {frame: [] for frame in self.frames}
        for frame in self.frames:
            for notes in frame.notes.values():
                for called in notes.calls:
                    found[called].append((frame, notes))
        return found

    def _below(self, own: dict[Frame, set[Any]]) -> dict[Frame, set[Any]]:
        """Return what each function has of its own, and by those that it calls."""
        found = {frame: set(own.get(frame, ())) for frame in self.frames}
        waiting = [frame for frame in self.frames if found[frame]]
        while waiting:
            frame = waiting.pop()
            for caller, _ in self.callers[frame]:
                before = len(found[caller])
                found[caller] |= found[frame]
                if len(found[caller]) > before:
                    waiting.append(caller)
        return found

    def _by_statement(self, own: dict[Notes, set[Any]], below: dict[Frame, set[Any]]) -> dict[int, set[Any]]:
        found: dict[int, set[Any]] = {}
        for frame in self.frames:
            for path, notes in frame.notes.items():
                here = own.get(notes, set()).union(*[below[called] for called in notes.calls])
                if here:
                    for statement in path:
                        found.setdefault(id(statement), set()).update(here)
        return found

    def _own(self, of: Callable[[Notes], Any]) -> tuple[dict[Notes, set[Any]], dict[Frame, set[Any]]]:
        """Return what statements have by themselves, and functions with all that they call."""
        own = {notes: set(of(notes)) for frame in self.frames for notes in frame.notes.values() if of(notes)}
        by_frame: dict[Frame, set[Any]] = {}
        for frame in self.frames:
            by_frame[frame] = set().union(*[own[notes] for notes in frame.notes.values() if notes in own])
        return own, self._below(by_frame)

    @cached_property
    def changes(self) -> dict[int, set[Atom]]:
        """By the id of a statement, the objects made by the code itself that it changes."""
        return self._by_statement(*self._own(lambda notes: notes.changes))

    @cached_property
    def written(self) -> set[int]:
        """Ids of statements that write into tensors or draw random numbers of undertow's, or call what does."""
        return set(self._by_statement(*self._own(lambda notes: {True} if notes.writes or notes.draws else set())))

    @cached_property
    def _effects(self) -> tuple[dict[Notes, set[Any]], dict[Frame, set[Any]]]:
        return self._own(lambda notes: notes.effects)

    @cached_property
    def _effects_by_statement(self) -> dict[int, set[Any]]:
        return self._by_statement(*self._effects)

    def effects_of(self, statement: int) -> list[Effect]:
        """Return what the statement with this id does, in the order in which it was found."""
        here = self._effects_by_statement.get(statement, ())
        return [self.whole.keyed[key] for key in sorted(here, key=self.order.__getitem__)]

    def ways(self, frame: Frame, effect: Any) -> list[tuple[Notes, list[Frame]]]:
        """Return the statements of a function that an effect comes about by, and by which of the functions they call."""
        _, below = self._effects
        ways = []
        for notes in frame.notes.values():
            called = [each for each in notes.calls if effect in below[each]]
            if called or effect in notes.effects:
                ways.append((notes, called))
        return ways


def combined(readings: Sequence[Reading]) -> Reading:
    """Return what several functions do, as if one called them all."""
    if len(readings) == 1:
        return readings[0]
    order: dict[Any, int] = {}
    for each in readings:
        for key in sorted(each.order, key=each.order.__getitem__):
            order.setdefault(key, len(order))

    def renewed(node: Any) -> Reading:
        return combined([each.renewed(node) for each in readings])

    return Reading([top for each in readings for top in each.tops], order, None, renewed)


def _reached(tops: list[Notes], skipped: frozenset[int]) -> dict[Frame, None]:
    """Return the functions that are called, in about the order in which they are."""
    found: dict[Frame, None] = {}
    waiting = [frame for top in reversed(tops) for frame in reversed(top.calls)]
    while waiting:
        frame = waiting.pop()
        if frame not in found:
            found[frame] = None
            waiting += reversed([each for notes in _left(frame, skipped) for each in notes.calls])
    return found


def _left(frame: Frame, skipped: frozenset[int]) -> list[Notes]:
    if not skipped:
        return list(frame.notes.values())
    return [notes for path, notes in frame.notes.items() if not any(id(each) in skipped for each in path)]


def _is_pure(frame: Frame) -> bool:
    """Whether a function whose results are kept does nothing that would not happen at each call."""
    if frame.is_pure is None:
        frame.is_pure = True  # if it calls itself
        reached = [notes for each in _reached([_calling(frame)], frozenset()) for notes in each.notes.values()]
        frame.is_pure = not any(
            notes.effects or not all(_is_pure(called) for called in notes.cached) for notes in reached
        )
    return frame.is_pure


def _calling(frame: Frame) -> Notes:
    notes = Notes()
    notes.calls[frame] = None
    return notes


def _finished(effect: Effect, read: dict[int, set[str | None]]) -> Effect:
    """Return a store into something that the function also reads may depend on what was there before."""
    if effect.kind == "store" and effect.target is not None and id(effect.target) in read:
        names = read[id(effect.target)]
        if effect.attribute is None or None in names or effect.attribute in names:
            return dataclasses.replace(effect, kind="update")
    return effect
