"""The guard on Python's places: attributes, entries of containers, closure cells, global names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter, contains, getitem, is_
from typing import Any

from undertow._src.base.hooks import CountedHooks
from undertow._src.compile.effects.objects import entries_of, held_by, keys_in
from undertow._src.compile.guards.guard import Guard, counted
from undertow._src.compile.guards.places import (
    ABSENT,
    Numbers,
    Place,
    change,
    contents_of,
    held_at,
    place_at,
    same,
)
from undertow._src.compile.guards.snapshot import Snapshot

Name = tuple[Any, str, Any]  # a namespace, a name in it, and what that stood for
_ATTRIBUTES = attrgetter("__dict__")


class PlaceGuard(Guard):
    """Guard what a snapshot's places hold.

    The check before a call looks at all values in a few passes over columns, one value after the other.
    """

    def __init__(self, snapshot: Snapshot, names: list[Name], ignored: set[Place]) -> None:
        self._snapshot = snapshot
        self._names = names
        self._ignored = ignored  # places that do not count
        self._owners = [owner for owner, _ in snapshot.state.owners]
        self._dicts = [attributes for _, attributes in snapshot.state.owners]
        self.prepare()

    @property
    def watches(self) -> str:
        """Name the places, and say how many there are."""
        number = len(self._values) + len(self._cells) + len(self._counting_names)
        number += sum(len(held) for _, held in (*self._partly, *self._partly_lists))
        return f"attributes, entries, variables and names that the code reaches ({counted(number, 'place')})"

    def prepare(self) -> None:
        """Make the columns, now that it is known which places do not count."""
        snapshot = self._snapshot
        watched: list[tuple[Any, dict[Any, Any]]] = []
        self._partly: list[tuple[Any, dict[Any, Any]]] = []
        for holder, held in snapshot.maps:
            if self.counts(holder):
                (watched if self.counts_wholly(holder, held) else self._partly).append((holder, held))
        watched = [pair for pair in watched if type(pair[0]) is not CountedHooks]  # those a `HookGuard` looks at
        filled = [(holder, held) for holder, held in watched if held]
        self._empty = [
            held_by(holder) for holder, held in watched if not held and id(holder) not in snapshot.state.notes_on_hooks
        ]
        glanced = [(held_by(holder), [*held.values()]) for holder, held in filled]
        self._partly_lists: list[tuple[Any, list[Any]]] = []
        for items, kept in snapshot.lists:
            if self.counts(items):
                wholly = all(self.counts(items, place) for place in range(len(kept))) if self._ignored else True
                (glanced if wholly else self._partly_lists).append((held_by(items) if wholly else items, kept))
        own = {id(held) for module in snapshot.state.modules for held in _own_maps(module)}  # no key is replaced there
        named = [all(type(key) is str for key in held) for _, held in filled]
        glanced += [(keys_in(holder), [*held]) for (holder, held), by_name in zip(filled, named) if not by_name]
        by_name = [pair for pair, is_by_name in zip(filled, named) if is_by_name and id(pair[0]) not in own]
        self._keys_of = [keys_in(holder) for holder, _ in by_name]
        self._keys = [tuple(held) for _, held in by_name]
        self._places = [where for where, _ in glanced]
        self._sizes = [len(held) for _, held in glanced]
        self._values = [*chain.from_iterable([held for _, held in glanced])]
        self._cells = [(cell, was) for cell, was in snapshot.cells if self.counts(cell)]
        self._counting_names = [each for each in self._names if self.counts(each[0], each[1])]
        present = [each for each in self._counting_names if each[2] is not ABSENT]
        self._present = _columns([each for each in present if isinstance(each[0], dict)], 3)
        self._attributes = _columns([each for each in present if not isinstance(each[0], dict)], 3)
        self._absent = _columns([each[:2] for each in self._counting_names if each[2] is ABSENT], 2)

    def counts(self, holder: Any, key: Any = None) -> bool:
        """Return whether a place counts."""
        return place_at(holder, key) not in self._ignored

    def counts_wholly(self, holder: Any, held: dict[Any, Any]) -> bool:
        """Return whether every entry of a mapping counts."""
        keys = {**held, **entries_of(holder)} if self._ignored else ()
        return all(self.counts(holder, key) for key in keys)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether every place holds what it held."""
        if any(map(len, self._empty)) or [*map(len, self._places)] != self._sizes:
            return False
        if not all(map(is_, chain.from_iterable(self._places), self._values)):  # numbers may be equal and not the same
            if not all(map(same, chain.from_iterable(self._places), self._values)):
                return False
        if [*map(tuple, self._keys_of)] != self._keys:
            return False
        for holder, held in self._partly:
            if self._changed_key(holder, held) is not ABSENT:
                return False
        for items, kept in self._partly_lists:
            if self._changed_item(items, kept):
                return False
        for cell, was in self._cells:
            now = contents_of(cell)
            if now is not was and not same(now, was):
                return False
        try:
            for get, (homes, names, kept) in ((dict.__getitem__, self._present), (getitem, self._attributes)):
                if not all(map(is_, map(get, homes, names), kept)) and not all(map(same, map(get, homes, names), kept)):
                    return False
        except KeyError:  # a name is gone
            return False
        if any(map(contains, *self._absent)):
            return False
        return all(map(is_, map(_ATTRIBUTES, self._owners), self._dicts))

    def reason(self) -> str:
        """Name a place that holds something else, a public one if there is one."""
        found = [*self._differences()]
        return min(found, key=lambda each: each[0])[1] if found else "something changed"

    def is_internal(self) -> bool:
        """Return whether all that changed are attributes that are not public."""
        return all(private for private, _ in self._differences())

    def _differences(self) -> Iterator[tuple[bool, str]]:
        """Yield (whether it is about a name that is not public, what is not as it was)."""
        snapshot = self._snapshot
        state = snapshot.state
        names = {id(holder): name for holder, name in (*state.maps, *state.lists)}
        for holder, held in snapshot.maps:
            key = self._changed_key(holder, held) if self.counts(holder) else ABSENT
            if key is not ABSENT:
                private = isinstance(key, str) and key.startswith("_")
                said = change(key, held.get(key, ABSENT), held_at(holder, key))
                yield private, f"{names.get(id(holder), '')}: {said}"
        for items, kept in snapshot.lists:
            if self.counts(items) and self._changed_item(items, kept):
                yield False, self._change_in(items, kept, names.get(id(items), ""))
        for (cell, name), (_, was) in zip(state.cells, snapshot.cells):
            if not same(contents_of(cell), was) and self.counts(cell):
                yield False, change(name, was, contents_of(cell))
        for holder, name, was in self._counting_names:
            if not same(held_at(holder, name), was):
                yield False, change(name, was, held_at(holder, name))
        for owner, attributes in zip(self._owners, self._dicts):
            if owner.__dict__ is not attributes:
                yield False, f"the attributes of a {type(owner).__name__} are in another dict"

    def _changed_key(self, holder: Any, held: dict[Any, Any]) -> Any:
        """Return the first key of a mapping under which there is something else than there was; ABSENT if there is none."""
        for key in {**held, **entries_of(holder)}:
            if not same(held.get(key, ABSENT), held_at(holder, key)) and self.counts(holder, key):
                return key
        return ABSENT

    def _changed_item(self, items: Any, kept: list[Any]) -> bool:
        """Return whether a list, deque or set holds anything else than it held."""
        now = held_by(items)
        if len(now) != len(kept):
            return True
        pairs = enumerate(zip(now, kept))
        return any(now is not was and not same(now, was) and self.counts(items, place) for place, (now, was) in pairs)

    def _change_in(self, items: Any, kept: list[Any], name: str) -> str:
        """Describe what changed in a list, deque or set."""
        if len(items) != len(kept) or isinstance(items, set):
            return (
                f"{name} had {len(kept)} entries and has {len(items)}" if len(items) != len(kept) else f"{name} changed"
            )
        names = items.names if isinstance(items, Numbers) else [f"{name}[{place}]" for place in range(len(kept))]
        changed = ((names[place], *pair) for place, pair in enumerate(zip(kept, items)) if not same(*pair))
        return change(*next(changed))

    def changed_numbers(self) -> dict[Place, tuple[Any, Any]]:
        """Return the places that hold another number of the same kind than they held."""
        snapshot = self._snapshot
        held = [(holder, key, value) for holder, held in snapshot.maps for key, value in held.items()]
        held += [(holder, place, value) for holder, kept in snapshot.lists for place, value in enumerate(kept)]
        held += [(cell, None, value) for cell, value in snapshot.cells]
        held += [*snapshot.globals]
        numbers = [(holder, key, value) for holder, key, value in held if type(value) in (int, float)]
        numbers = [each for each in numbers if not isinstance(each[0], set)]
        return {
            place_at(holder, key): (holder, key)
            for holder, key, value in numbers
            if type(held_at(holder, key)) is type(value)
            and not same(held_at(holder, key), value)
            and self.counts(holder)
            and self.counts(holder, key)
        }


def _columns(rows: list[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[place] for row in rows] for place in range(width)]


def _own_maps(module: Any) -> tuple[Any, ...]:
    """Return the mappings that a module itself keeps its parts in."""
    return vars(module), module._parameters, module._buffers, module._modules
