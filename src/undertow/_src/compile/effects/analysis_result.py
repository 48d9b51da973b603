"""The result of an analysis: what code does, as a whole, by statement, or without some statements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from undertow._src.compile.effects.call_graph import Frame, Notes
from undertow._src.compile.effects.findings import Effect, Effects
from undertow._src.compile.effects.values import EMPTY, Atom, Value

K = TypeVar("K")
V = TypeVar("V")


class Summary:
    """The effects of code, without some of its statements."""

    def __init__(self, reached: list[tuple[Frame | None, Notes]], order: dict[Any, int], returns: bool | None) -> None:
        self.reached = reached
        found = _merged(notes.effects for _, notes in reached)
        places = _merged(notes.places for _, notes in reached)
        names: dict[int, set[str | None]] = {}
        for place in places.values():
            names.setdefault(id(place.owner), set()).add(place.name)
        self.keyed = {key: _finished(found[key], names) for key in sorted(found, key=order.__getitem__)}
        self.effects = Effects(
            effects=tuple(self.keyed.values()),
            returns=returns,
            reads=tuple(_merged(notes.reads for _, notes in reached).values()),
            holds=tuple(_merged(notes.holds for _, notes in reached).values()),
            places=tuple(places.values()),
            writes=any(notes.writes or notes.may_write for _, notes in reached),
            names=tuple(_merged(notes.names for _, notes in reached).values()),
            functions=tuple({id(frame.function): frame.function for frame, _ in reached if frame is not None}.values()),
            objects=tuple(_merged(notes.objects for _, notes in reached).values()),
            draws=any(notes.draws for _, notes in reached),
        )


class Reading:
    """What an analysis found, by calls and statements.

    Statements go by their ids, and each has the effects of those inside it and of the functions that it calls; so do
    expressions, where these were recorded (`values` has what they may be).
    """

    def __init__(
        self, tops: list[Notes], order: dict[Any, int], returns: bool | None, renewed: Callable[[Any], Reading],
        values: dict[int, Value] | None = None,
    ) -> None:  # fmt: skip
        self.tops, self.order, self.returns = tops, order, returns
        self.renewed = renewed  # the reading after a definition was rewritten
        self.values: dict[int, Value] = {} if values is None else values
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

    def without(self, skipped: frozenset[int]) -> Summary:
        """Return the reading without the statements with these ids."""
        return Summary(self._notes(skipped), self.order, self.returns)

    def _notes(self, skipped: frozenset[int]) -> list[tuple[Frame | None, Notes]]:
        frames = _reached(self.tops, skipped) if skipped else self.frames
        below = [(frame, notes) for frame in frames for notes in _left(frame, skipped)]
        return [*[(None, top) for top in self.tops], *below]

    @cached_property
    def callers(self) -> dict[Frame, list[tuple[Frame, Notes]]]:
        """The statements that call each function. No statement calls the outermost one."""
        found: dict[Frame, list[tuple[Frame, Notes]]] = {frame: [] for frame in self.frames}
        for frame in self.frames:
            for notes in frame.notes.values():
                for called in notes.calls:
                    found[called].append((frame, notes))
        return found

    def _below(self, own: dict[Frame, set[Any]]) -> dict[Frame, set[Any]]:
        """Return the effects of each function itself, and of the functions that it calls."""
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
        """Return the effects of statements themselves, and of functions with all that they call."""
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
    def rebinds(self) -> dict[int, set[str]]:
        """By the id of a statement, the outer variables that the functions it calls set."""
        return self._by_statement(*self._own(lambda notes: notes.rebinds))

    @cached_property
    def written(self) -> set[int]:
        """Ids of statements that write into tensors or draw random numbers of undertow, or call what does."""
        return set(self._by_statement(*self._own(lambda notes: {True} if notes.writes or notes.draws else set())))

    @cached_property
    def places(self) -> dict[int, set[tuple[int, str | None]]]:
        """By the id of a statement, the places that it reads from outside: the id of their owner, and a name."""
        return self._by_statement(*self._own(lambda notes: notes.places))

    @cached_property
    def _effects(self) -> tuple[dict[Notes, set[Any]], dict[Frame, set[Any]]]:
        return self._own(lambda notes: notes.effects)

    @cached_property
    def _effects_by_statement(self) -> dict[int, set[Any]]:
        return self._by_statement(*self._effects)

    def effects_of(self, statement: int) -> list[Effect]:
        """Return the effects of the statement with this id, in the order in which they were found."""
        here = self._effects_by_statement.get(statement, ())
        return [self.whole.keyed[key] for key in sorted(here, key=self.order.__getitem__)]

    def ways(self, frame: Frame, effect: Any) -> list[tuple[Notes, list[Frame]]]:
        """Return the statements of a function that cause an effect, with the functions that they call for it."""
        _, below = self._effects
        ways = []
        for notes in frame.notes.values():
            called = [each for each in notes.calls if effect in below[each]]
            if called or effect in notes.effects:
                ways.append((notes, called))
        return ways


def _merged(maps: Iterable[dict[K, V]]) -> dict[K, V]:
    """Return the entries of several dicts; of equal keys, the first."""
    found: dict[K, V] = {}
    for each in maps:
        for key, value in each.items():
            found.setdefault(key, value)
    return found


def combined(readings: Sequence[Reading]) -> Reading:
    """Return the effects of several functions, as if one function called all of them."""
    if len(readings) == 1:
        return readings[0]
    order: dict[Any, int] = {}
    for each in readings:
        for key in sorted(each.order, key=each.order.__getitem__):
            order.setdefault(key, len(order))

    def renewed(node: Any) -> Reading:
        return combined([each.renewed(node) for each in readings])

    values: dict[int, Value] = {}
    for each in readings:
        for part, value in each.values.items():
            values[part] = values.get(part, EMPTY) | value
    return Reading([top for each in readings for top in each.tops], order, None, renewed, values)


def _reached(tops: list[Notes], skipped: frozenset[int]) -> dict[Frame, None]:
    """Return the functions that are called, in about the order of the calls."""
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
    """Return whether a function whose results are cached has no effects that each call should have."""
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
    """Mark stores into something that the function also reads: they may depend on what was there before."""
    if effect.kind == "store" and effect.target is not None and id(effect.target) in read:
        names = read[id(effect.target)]
        if effect.attribute is None or None in names or effect.attribute in names:
            return dataclasses.replace(effect, kind="update")
    return effect
