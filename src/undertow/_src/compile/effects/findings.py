"""The answer of an analysis: effects, reads and places."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import CellType, FunctionType
from typing import Any, Literal, NamedTuple

import numpy as np

from undertow._src.compile.effects.objects import entries_of, held_by, keys_in
from undertow._src.compile.effects.values import is_plain


class Place(NamedTuple):
    """Somewhere a value is kept: an attribute of an object; all of a container; a cell; a name in a namespace."""

    owner: Any
    name: str | None = None

    def overlaps(self, other: Place) -> bool:
        if self.owner is other.owner:
            return self.name is None or other.name is None or self.name == other.name
        return isinstance(self.owner, _MEMORIES) and isinstance(other.owner, _MEMORIES) and self._shares(other)

    def _shares(self, other: Place) -> bool:
        """Return whether both places are memory, and one is a view of the other."""
        one, two = _memory_of(self.owner), _memory_of(other.owner)
        return one is two or (
            isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and np.may_share_memory(one, two)
        )


@dataclass(frozen=True)
class Effect:
    """Something that the function does besides computing with tensors.

    kind: "call", "store" (doing it again with the same inputs changes nothing) or "update" (depends on what was there).
    target: the object that is changed, where it could be found; attribute: which part of it, where that is known.
    entries: the keys of a mapping under which it stores, where those are known.
    field: what it has to do with: "output", "random", "clock", "files", "iterator", "messages" (to other ranks) or
    "debugger"; "own" for what undertow itself does; "unknown" for what could not be followed, "harmless" for what makes
    no difference; else empty.
    """

    kind: Literal["call", "store", "update"]
    what: str
    file: str
    line: int
    target: Any = None
    attribute: str | None = None
    field: str = ""
    entries: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.what} ({self.file}:{self.line})" if self.file else self.what

    def meets(self, other: Effect) -> bool:
        """Return whether both may change the same place."""
        if self.target is None or not Place(self.target, self.attribute).overlaps(Place(other.target, other.attribute)):
            return False
        return not self.entries or not other.entries or not self.entries.isdisjoint(other.entries)

    def feeds(self, places: tuple[Place, ...]) -> bool:
        """Return whether the changed object may be read at one of these places."""
        if self.target is None:
            return self.kind != "call" and bool(places)
        changed = Place(self.target, self.attribute)
        return any(changed.overlaps(place) for place in places)


@dataclass(frozen=True, eq=False)
class Read:
    """A Python value from outside that the function depends on, as it was when the function was analysed."""

    name: str
    get: Callable[[], Any]
    value: Any
    owner: Any = None  # the object of which it is an attribute, if it is one
    kept_at: tuple[Any, Any] | None = None  # the mapping or list that holds it, and its key there; of a cell, None
    in_c: bool = False  # whether it is an attribute of an object of C code, which keeps it in no place of Python's

    def changed(self) -> bool:
        """Return whether the value differs now. Plain values compare by value and type, other objects by identity."""
        return not same(self.value, self.get())


@dataclass(frozen=True, eq=False)
class Effects:
    """What running a function does.

    pure: only computes with tensors and local variables.
    returns: False if always None, True if never None, None if that cannot be told.
    reads: values that a traced program would hold as constants; holds: tensors and modules that it finds by name.
    writes: may write into tensors that it did not make, or set their `.grad`; so it must run where its result is used.
    places: where it reads from outside; touches: the objects concerned.
    draws: draws from undertow's random streams.
    names: what it looks up in modules, and which modules, where the code does not say so by itself.
    functions: the user's functions that were analyzed.
    objects: those of users' classes that it finds, whose methods it may call; such classes; functions with a cache.
    """

    effects: tuple[Effect, ...]
    returns: bool | None
    reads: tuple[Read, ...]
    holds: tuple[Read, ...]
    places: tuple[Place, ...]
    writes: bool
    names: tuple[tuple[dict[str, Any], str], ...] = ()
    functions: tuple[FunctionType, ...] = ()
    objects: tuple[Any, ...] = ()
    draws: bool = False

    @property
    def pure(self) -> bool:
        return not self.effects

    @cached_property
    def touches(self) -> tuple[Any, ...]:
        return tuple({id(place.owner): place.owner for place in self.places}.values())

    def feeds(self, other: Effects) -> bool:
        """Return whether something that this function changes may be read by the given one."""
        return any(effect.feeds(other.places) for effect in self.effects)


_MEMORIES = (np.ndarray, bytearray, memoryview, array)


def _memory_of(value: Any) -> Any:
    return value.obj if isinstance(value, memoryview) else value


def snapshot(value: Any) -> Any:
    """Return a shallow copy of a container, which later changes do not affect."""
    if isinstance(value, dict):
        return entries_of(value)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (set, frozenset)):
        return frozenset(held_by(value))
    if isinstance(value, tuple) or is_plain(value):
        return value
    return list(held_by(value))


def same(before: Any, now: Any) -> bool:
    """Return whether a snapshot still holds."""
    if before is now:
        return True
    if isinstance(before, np.ndarray):
        if not isinstance(now, np.ndarray) or before.dtype != now.dtype or before.shape != now.shape:
            return False
        if before.dtype.hasobject:
            return all(map(same, before.flat, now.flat))
        return before.tobytes() == now.tobytes()
    if is_plain(before):
        if type(before) is not type(now):
            return False
        if isinstance(before, (float, complex)):
            return repr(before) == repr(now)  # 0.0 equals -0.0, and nan nothing
        return (
            before == now if not isinstance(before, tuple) else all(map(same, before, now)) and len(before) == len(now)
        )
    if isinstance(before, dict):
        return (
            isinstance(now, dict)
            and len(held_by(before)) == len(held_by(now))
            and all(a is b or (is_plain(a) and same(a, b)) for a, b in zip(keys_in(before), keys_in(now)))
            and all(same(a, b) for a, b in zip(held_by(before), held_by(now)))
        )
    if isinstance(before, frozenset):
        return isinstance(now, (set, frozenset)) and before == now
    if isinstance(before, (list, tuple)):
        # A deque is copied to a list.
        now = held_by(now)
        return hasattr(now, "__len__") and len(before) == len(now) and all(same(a, b) for a, b in zip(before, now))
    return False


def cell_of(function: Any, name: str) -> CellType | None:
    """Return the cell in which a function's closure keeps a variable."""
    names = function.__code__.co_freevars
    return function.__closure__[names.index(name)] if name in names else None
