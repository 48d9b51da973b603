"""The guard on values in Python: attributes, entries of containers, closure cells, globals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any

from undertow._src.base.hooks import CountedHooks
from undertow._src.compile.effects.objects import entries_of, held_by, keys_in
from undertow._src.compile.guards.guard import Check, Guard
from undertow._src.compile.guards.memory_words import Words
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
from undertow._src.compile.guards.variable_words import Columns, Name, Pair


class VariableGuard(Guard):
    """Guard what a snapshot's places hold.

    For speed, the check before a call goes through columns of values in a few passes in C.
    """

    def __init__(self, snapshot: Snapshot, names: list[Name], ignored: set[Place]) -> None:
        self._snapshot = snapshot
        self._names = names
        self._ignored = ignored  # places that are not guarded
        self._owners = [owner for owner, _ in snapshot.state.owners]
        self._dicts = [attributes for _, attributes in snapshot.state.owners]
        self.prepare()

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "attributes, entries and variables that the code reaches"

    @property
    def number(self) -> int:
        """Return their number."""
        in_parts = sum(len(held) for _, held in (*self._partly, *self._partly_lists))
        return in_parts + len(self._columns)

    def prepare(self) -> None:
        """Make the columns, after it is known which places are not guarded."""
        snapshot = self._snapshot
        watched: list[Pair] = []
        self._partly: list[Pair] = []
        for holder, held in snapshot.maps:
            if self.counts(holder):
                (watched if self.counts_wholly(holder, held) else self._partly).append((holder, held))
        watched = [pair for pair in watched if type(pair[0]) is not CountedHooks]  # those that a `HookGuard` compares
        notes = snapshot.state.notes_on_hooks
        lists: list[Pair] = []
        self._partly_lists: list[Pair] = []
        for items, kept in snapshot.lists:
            if self.counts(items):
                wholly = all(self.counts(items, place) for place in range(len(kept))) if self._ignored else True
                (lists if wholly else self._partly_lists).append((items, kept))
        self._counting_names = [each for each in self._names if self.counts(each[0], each[1])]
        self._columns = Columns(
            [(holder, held) for holder, held in watched if held or id(holder) not in notes], lists,
            [(cell, was) for cell, was in snapshot.cells if self.counts(cell)], self._counting_names,
            [*zip(self._owners, self._dicts)],
        )  # fmt: skip

    def counts(self, holder: Any, key: Any = None) -> bool:
        """Return whether a place is guarded."""
        return place_at(holder, key) not in self._ignored

    def counts_wholly(self, holder: Any, held: dict[Any, Any]) -> bool:
        """Return whether every entry of a mapping is guarded."""
        keys = {**held, **entries_of(holder)} if self._ignored else ()
        return all(self.counts(holder, key) for key in keys)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the value of every place is unchanged."""
        return self._columns.hold() and self._hold_partly(arguments)

    def watch(self, words: Words) -> Check | None:
        """Watch the places; containers that are guarded only in part are compared place by place."""
        others = self._columns.watch(words)
        if others is None:
            return self._hold_partly if self._partly or self._partly_lists else None
        return lambda arguments: others.hold() and self._hold_partly(arguments)

    def _hold_partly(self, arguments: Sequence[Any]) -> bool:
        """Compare the guarded places of containers that are guarded only in part."""
        for holder, held in self._partly:
            if not _in_order(holder, held) or self._changed_key(holder, held) is not ABSENT:
                return False
        for items, kept in self._partly_lists:
            if self._changed_item(items, kept):
                return False
        return True

    def reason(self) -> str:
        """Return a place that changed, in words: a public one if there is one."""
        found = [*self._differences()]
        return min(found, key=lambda each: each[0])[1] if found else "something changed"

    def is_internal(self) -> bool:
        """Return whether only private attributes changed."""
        return all(private for private, _ in self._differences())

    def _differences(self) -> Iterator[tuple[bool, str]]:
        """Yield, for each change, whether the name is private and the change in words."""
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
        """Return the first key of a mapping whose value changed; ABSENT if there is none."""
        for key in {**held, **entries_of(holder)}:
            if not same(held.get(key, ABSENT), held_at(holder, key)) and self.counts(holder, key):
                return key
        return ABSENT

    def _changed_item(self, items: Any, kept: list[Any]) -> bool:
        """Return whether a list, deque or set changed."""
        now = held_by(items)
        if len(now) != len(kept):
            return True
        pairs = enumerate(zip(now, kept))
        return any(now is not was and not same(now, was) and self.counts(items, place) for place, (now, was) in pairs)

    def _change_in(self, items: Any, kept: list[Any], name: str) -> str:
        """Describe the change in a list, deque or set."""
        if len(items) != len(kept) or isinstance(items, set):
            return (
                f"{name} had {len(kept)} entries and has {len(items)}" if len(items) != len(kept) else f"{name} changed"
            )
        names = items.names if isinstance(items, Numbers) else [f"{name}[{place}]" for place in range(len(kept))]
        changed = ((names[place], *pair) for place, pair in enumerate(zip(kept, items)) if not same(*pair))
        return change(*next(changed))

    def changed_numbers(self) -> dict[Place, tuple[Any, Any]]:
        """Return the places whose number changed, but not its kind."""
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


def _in_order(holder: Any, held: dict[Any, Any]) -> bool:
    """Return whether the keys that a dict still has are the same, in the same order."""
    if not isinstance(holder, dict) or (len(holder) == len(held) and all(map(is_, keys_in(holder), held))):
        return True
    now = dict.fromkeys(keys_in(holder))
    return all(map(same, [key for key in now if key in held], [key for key in held if key in now]))
