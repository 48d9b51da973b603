"""Split containers and objects into parts, empty them, and fill them again."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple

from undertow._src.compile.effects.objects import entries_of, held_by, instance_dict, methods_of
from undertow._src.compile.guards.places import Slots

CONTAINERS = (tuple, list, dict, set, frozenset, deque)
UNCHANGING = (tuple, frozenset)
_OF_PYTHON = ("builtins", "itertools")


class Part(NamedTuple):
    """An element of a container, or an attribute of an object."""

    is_item: bool
    key: Any  # of a mapping, or the attribute's name
    value: Any


def contents_of(value: Any) -> list[Part]:
    """Return the parts of a container or an object, in order."""
    parts: list[Part] = []
    if isinstance(value, dict):
        parts += [Part(True, key, each) for key, each in entries_of(value).items()]
    elif isinstance(value, CONTAINERS):
        parts += [Part(True, None, each) for each in held_by(value)]
    parts += [Part(False, name, each) for name, each in instance_dict(value).items()]
    return parts + [Part(False, name, each) for name, each in Slots(value).items()]


def is_used_up(value: Any) -> bool:
    """Return whether a value can be iterated over only once: an iterator, a generator, a coroutine."""
    return isinstance(value, (Iterator, Coroutine, AsyncGenerator)) and type(value).__module__ in _OF_PYTHON


def same_contents(before: list[Part], now: list[Part]) -> bool:
    """Return whether both hold the same objects in the same places."""
    return len(before) == len(now) and all(
        a.value is b.value and a.key is b.key and a.is_item is b.is_item for a, b in zip(before, now)
    )


def emptied(value: Any) -> Any:
    """Return an empty container or object of the same kind."""
    made = copy.copy(value)
    if isinstance(made, CONTAINERS):
        methods_of(made).clear(made)
    return made


def fill(made: Any, parts: Iterable[Part]) -> None:
    """Put other contents into a container or an object."""
    items = [part for part in parts if part.is_item]
    if isinstance(made, (list, dict, set, deque)):
        kind = methods_of(made)
        kind.clear(made)
        if isinstance(made, dict):
            kind.update(made, [(part.key, part.value) for part in items])
        else:
            (kind.update if isinstance(made, set) else kind.extend)(made, [part.value for part in items])
    own, slots = instance_dict(made), Slots(made)
    for part in parts:
        if not part.is_item:
            (slots if part.key in slots.members else own)[part.key] = part.value


def made_of(kind: type, parts: Iterable[Part]) -> Any:
    """Return a tuple or a frozenset, with its attributes."""
    parts = [*parts]
    values = [part.value for part in parts if part.is_item]
    made = kind(*values) if hasattr(kind, "_fields") else kind(values)
    fill(made, [part for part in parts if not part.is_item])
    return made
