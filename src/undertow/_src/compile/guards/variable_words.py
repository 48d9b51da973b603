"""What places hold, compared in a few passes over columns, or as words of memory."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter, contains, getitem, is_
from typing import Any

from undertow._src.compile.effects.objects import held_by, keys_in
from undertow._src.compile.guards.memory_words import Words
from undertow._src.compile.guards.places import ABSENT, EXACT, OfClass, contents_of, same

Name = tuple[Any, str, Any]  # a namespace, a name in it, and its value
Pair = tuple[Any, Any]  # a container or another holder, and its contents
NUMBERS = EXACT - {bool, type(None)}  # and strings, which may be equal and not identical
_ATTRIBUTES = attrgetter("__dict__")


class Columns:
    """Mappings, lists, closure cells, names and the dicts of objects, each with what it has to hold."""

    def __init__(
        self,
        maps: list[Pair],
        lists: list[Pair],
        cells: list[Pair],
        names: list[Name],
        owners: list[Pair],
    ) -> None:
        self._maps, self._lists, self._names = maps, lists, names
        self._cells, self._owner_dicts = cells, owners
        filled = [(holder, held) for holder, held in maps if held]
        self._empty = [held_by(holder) for holder, held in maps if not held]
        glanced = [(held_by(holder), [*held.values()]) for holder, held in filled]
        glanced += [(held_by(items), kept) for items, kept in lists]
        self._keys_of = [keys_in(holder) for holder, _ in filled]
        self._keys = [*chain.from_iterable([held for _, held in filled])]
        self._places = [where for where, _ in glanced]
        self._sizes = [len(held) for _, held in glanced]
        self._values = [*chain.from_iterable([held for _, held in glanced])]
        present = [each for each in names if each[2] is not ABSENT]
        self._present = _columns([each for each in present if isinstance(each[0], dict)], 3)
        self._attributes = _columns([each for each in present if not isinstance(each[0], dict)], 3)
        self._absent = _columns([each[:2] for each in names if each[2] is ABSENT], 2)
        self._owners, self._dicts = _columns(owners, 2)
        checks = (
            (self._hold_values, self._empty or self._places), (self._hold_cells, cells), (self._hold_names, present),
            (self._are_absent, self._absent[0]), (self._hold_owners, owners),
        )  # fmt: skip
        self._checks = [check for check, columns in checks if columns]

    def __len__(self) -> int:
        return len(self._values) + len(self._cells) + len(self._names)

    def hold(self) -> bool:
        """Return whether the value of every place is unchanged."""
        for holds in self._checks:
            if not holds():
                return False
        return True

    def _hold_values(self) -> bool:
        if any(map(len, self._empty)) or [*map(len, self._places)] != self._sizes:
            return False
        return _are(self._places, self._values) and _are(self._keys_of, self._keys)

    def _hold_cells(self) -> bool:
        for cell, was in self._cells:
            now = contents_of(cell)
            if now is not was and not same(now, was):
                return False
        return True

    def _hold_names(self) -> bool:
        try:
            for get, (homes, names, kept) in ((dict.__getitem__, self._present), (getitem, self._attributes)):
                if not all(map(is_, map(get, homes, names), kept)) and not all(map(same, map(get, homes, names), kept)):
                    return False
        except KeyError:  # a name was deleted
            return False
        return True

    def _are_absent(self) -> bool:
        return not any(map(contains, *self._absent))

    def _hold_owners(self) -> bool:
        return all(map(is_, map(_ATTRIBUTES, self._owners), self._dicts))

    def watch(self, words: Words) -> Columns | None:
        """Add words that show changes of places; return the places whose changes they do not show."""
        maps = [pair for pair in self._maps if not _watch_map(words, *pair)]
        lists = [pair for pair in self._lists if not _watch_list(words, *pair)]
        cells = [pair for pair in self._cells if not _watch_cell(words, *pair)]
        names = [each for each in self._names if not _watch_name(words, *each)]
        owners = [pair for pair in self._owner_dicts if not words.attributes_of(*pair)]
        if not (maps or lists or cells or names or owners):
            return None
        return Columns(maps, lists, cells, names, owners)


def _are(places: list[Any], values: list[Any]) -> bool:
    """Return whether containers have these values; numbers and strings may be equal and not identical."""
    return all(map(is_, chain.from_iterable(places), values)) or all(map(same, chain.from_iterable(places), values))


def _watch_map(words: Words, holder: Any, held: Any) -> bool:
    if type(holder) is OfClass:
        return words.version_of_class(vars(holder.owner))
    if not isinstance(holder, dict):
        return False
    if not held:
        words.size_of(holder, 0)
        return True
    words.version_of(holder)
    return True


def _watch_list(words: Words, items: Any, kept: list[Any]) -> bool:
    if not kept and isinstance(items, (list, set)):
        words.size_of(items, 0)
        return True
    if not isinstance(items, list) or not NUMBERS.isdisjoint(map(type, kept)):
        return False
    words.items_of(items, kept)
    return True


def _watch_cell(words: Words, cell: Any, was: Any) -> bool:
    if was is ABSENT or type(was) in NUMBERS:
        return False
    words.contents_of(cell, was)
    return True


def _watch_name(words: Words, home: Any, name: str, was: Any) -> bool:
    if not isinstance(home, dict):
        return words.version_of_class(home)
    return was is not ABSENT and type(was) not in NUMBERS and words.entry_of(home, name, was)


def _columns(rows: list[Any], width: int) -> list[list[Any]]:
    return [[row[place] for row in rows] for place in range(width)]
