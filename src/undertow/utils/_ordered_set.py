"""`OrderedSet`: a set that keeps insertion order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet, Reversible
from collections.abc import Set as AbstractSet
from typing import Any

__all__ = ["OrderedSet"]


class OrderedSet(MutableSet[Any], Reversible[Any]):
    """A set with the methods of Python's set, in insertion order.

    >>> from undertow.utils._ordered_set import OrderedSet
    >>> OrderedSet([3, 1, 3]) | {2}
    OrderedSet([3, 1, 2])
    """

    __slots__ = ("_dict",)

    def __init__(self, iterable: Iterable[Any] | None = None) -> None:
        self._dict = dict.fromkeys(iterable, None) if iterable is not None else {}

    def __contains__(self, elem: object) -> bool:
        return elem in self._dict

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dict)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __repr__(self) -> str:
        return f"OrderedSet({list(self)})"

    def __getstate__(self) -> list[Any]:
        return list(self._dict)

    def __setstate__(self, state: list[Any]) -> None:
        self._dict = dict.fromkeys(state)

    def __or__(self, other: Iterable[Any]) -> OrderedSet:
        return self.union(other)

    def __ror__(self, other: Iterable[Any]) -> OrderedSet:
        return self.union(other)

    def add(self, elem: Any) -> None:
        self._dict[elem] = None

    def discard(self, elem: Any) -> None:
        self._dict.pop(elem, None)

    def clear(self) -> None:
        self._dict.clear()

    def pop(self) -> Any:
        """Remove and return the last element."""
        if not self:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def copy(self) -> OrderedSet:
        return OrderedSet(self)

    # --- operations with several sets

    def update(self, *others: Iterable[Any]) -> None:
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def union(self, *others: Iterable[Any]) -> OrderedSet:
        both = self.copy()
        both.update(*others)
        return both

    def intersection(self, *others: Iterable[Any]) -> OrderedSet:
        kept = [set(other) for other in others]
        return OrderedSet(elem for elem in self if all(elem in other for other in kept))

    def intersection_update(self, *others: Iterable[Any]) -> None:
        self._dict = self.intersection(*others)._dict

    def difference(self, *others: Iterable[Any]) -> OrderedSet:
        gone = {elem for other in others for elem in other}
        return OrderedSet(elem for elem in self if elem not in gone)

    def difference_update(self, *others: Iterable[Any]) -> None:
        self._dict = self.difference(*others)._dict

    def symmetric_difference(self, other: Iterable[Any]) -> OrderedSet:
        theirs = OrderedSet(other)
        return self.difference(theirs).union(theirs.difference(self))

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        self._dict = self.symmetric_difference(other)._dict

    def issubset(self, other: Iterable[Any]) -> bool:
        return self <= _as_set(other)

    def issuperset(self, other: Iterable[Any]) -> bool:
        return self >= _as_set(other)


def _as_set(values: Iterable[Any]) -> AbstractSet[Any]:
    return values if isinstance(values, AbstractSet) else set(values)
