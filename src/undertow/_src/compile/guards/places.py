"""Places: where Python keeps values. Attributes, globals, entries of containers, closure cells.

A place is identified by the object that holds the value and a key; see `place_at`.
"""

from __future__ import annotations

import struct
import types
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, MutableMapping
from operator import getitem, is_
from typing import Any, NamedTuple

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.objects import entries_of, held_by, instance_dict, methods_of
from undertow._src.tensor.core import Meta, TensorCore

PLAIN = (int, float, complex, str, bytes, bool, type(None))
EXACT = frozenset(PLAIN)  # an object of a class that inherits from one of these may have attributes
ABSENT = object()

Place = tuple[int, Any]  # an id and a key; see `place_at`
Stores = list[tuple[MutableMapping[Any, Any], dict[Any, Any]]]  # mappings that are changed, and their contents before


class Change(NamedTuple):
    """A place that holds a different value than it held. The key of a whole list is a slice, of an array `...`."""

    holder: Any
    key: Any
    before: Any
    now: Any  # ABSENT: the entry was removed


class Slots(MutableMapping[str, Any]):
    """The attributes that an object keeps in slots."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.members = {
            name: each
            for kind in type(owner).__mro__
            if purity.origin_of(kind) == "user" or not getattr(kind, "_is_strided", True)  # a sparse tensor's parts
            for name, each in vars(kind).items()
            if type(each) is types.MemberDescriptorType and "__slots__" in vars(kind)  # not those of a class in C
        }

    def __getitem__(self, name: str) -> Any:
        try:
            return self.members[name].__get__(self.owner)
        except AttributeError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        self.members[name].__set__(self.owner, value)

    def __delitem__(self, name: str) -> None:
        self.members[name].__delete__(self.owner)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.members if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class OfClass(MutableMapping[str, Any]):
    """The attributes of a class."""

    def __init__(self, owner: type) -> None:
        self.owner = owner

    def __getitem__(self, name: str) -> Any:
        return vars(self.owner)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        type.__setattr__(self.owner, name, value)

    def __delitem__(self, name: str) -> None:
        type.__delattr__(self.owner, name)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self.owner))

    def __len__(self) -> int:
        return len(vars(self.owner))

    def values(self) -> Any:
        return vars(self.owner).values()


class Methods(OfClass):
    """What a class has besides plain values: methods, properties, other descriptors."""

    def __iter__(self) -> Iterator[str]:
        return (name for name, value in vars(self.owner).items() if type(value) not in EXACT)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    values = MutableMapping.values


class Numbers(list[Any]):
    """The numbers among a step's arguments, which each call fills in, and what the step calls them."""

    names: list[str] = []


def contents_of(cell: Any) -> Any:
    """Return the value of a closure cell; ABSENT if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def same(a: Any, b: Any) -> bool:
    """Return whether two values are one object, or plain values that can't be distinguished."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in (float, complex):  # 0.0 == -0.0, and nan != nan, even with the same sign
        return _bits(a) == _bits(b)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes() and not a.dtype.hasobject
    return type(a) in EXACT and a == b


def _bits(number: complex) -> bytes:
    return struct.pack("dd", number.real, number.imag)


def place_at(holder: Any, key: Any) -> Place:
    """Return the identity of a place: a mapping or a list, and a key in it; a closure cell or a whole container,
    and None.
    """
    return id(holder.owner if isinstance(holder, (Slots, OfClass)) else holder), key


def places_of(target: Any, attribute: str | None) -> set[Place]:
    """Return the places in which an object keeps an attribute or, without one, itself."""
    if isinstance(target, dict):
        return {(id(target), attribute)}
    return {(id(instance_dict(target)), attribute), (id(target), attribute)}


class Places:
    """Places that some code reads or changes. One without a key stands for all of a container."""

    def __init__(self, places: Iterable[tuple[Any, str | None]]) -> None:
        self._places = {here for owner, name in places if owner is not None for here in places_of(owner, name)}
        self._owners = {owner for owner, _ in self._places}

    def meet(self, holder: Any, key: Any) -> bool:
        """Return whether a place is one of these, is a part of one, or contains one."""
        owner, key = place_at(holder, None if isinstance(key, (slice, type(...))) else key)
        if owner not in self._owners:
            return False
        return key is None or (owner, None) in self._places or (owner, key) in self._places


def holder_of(owner: Any, attribute: str | None) -> MutableMapping[Any, Any] | None:
    """Return the mapping in which an object keeps an attribute; None if it has none."""
    if isinstance(owner, dict):
        return owner
    if isinstance(owner, type):
        return OfClass(owner)
    slots = Slots(owner)
    return slots if attribute in slots.members else getattr(owner, "__dict__", None)


def held_at(holder: Any, key: Any) -> Any:
    """Return the value in a place: of an entry in a mapping or a list or, without a key, of a closure cell; or ABSENT.

    The value of a whole list or array (see `Change`) is a copy.
    """
    if key is None:
        return contents_of(holder)
    if isinstance(key, slice):
        return list(held_by(holder))
    if key is ...:
        return holder.copy()
    if isinstance(holder, (list, deque, array, bytearray)):
        own: Any = list.__getitem__ if isinstance(holder, list) else getitem  # a subclass may compute its values
        return own(holder, key) if -len(holder) <= key < len(holder) else ABSENT
    return dict.get(holder, key, ABSENT) if isinstance(holder, dict) else holder.get(key, ABSENT)


def described(value: Any) -> str:
    """Return a value in words."""
    if value is ABSENT:
        return "absent"
    return repr(value) if isinstance(value, PLAIN) else f"a {type(value).__name__}"


def change(key: Any, before: Any, now: Any) -> str:
    """Return the new and the old value of a place, in words."""
    key = key if isinstance(key, PLAIN) else f"an entry for a {type(key).__name__}"
    if type(before) is type(now) and isinstance(now, (list, tuple, dict, set)) and len(before) != len(now):
        return f"{key} had {len(before)} entries and has {len(now)}"
    if described(before) == described(now):
        return f"{key} is a different {type(now).__name__} than before"
    return f"{key} was {described(before)} and is {described(now)}"


ORDINARY = frozenset([dict, OrderedDict])  # mappings whose methods do nothing else


def changes_in(holder: Any, held: dict[Any, Any]) -> Iterator[Change]:
    """Yield the changes of a mapping. Entries whose order changed are removed first, then added in order."""
    now = holder if type(holder) in ORDINARY else entries_of(holder)
    if len(now) == len(held) and all(map(is_, now.values(), held.values())) and all(map(is_, now, held)):
        return
    now = entries_of(holder)
    common = [key for key in held if key in now], [key for key in now if key in held]
    moved = isinstance(holder, dict) and not all(map(is_, *common))  # tensors as keys compare by value
    for key, before in held.items():
        if moved or key not in now:
            yield Change(holder, key, before, ABSENT)
    for key, value in now.items():
        if moved or value is not held.get(key, ABSENT):
            yield Change(holder, key, held.get(key, ABSENT), value)


def put(holder: Any, key: Any, value: Any) -> None:
    """Put a value into a place; ABSENT removes the entry."""
    if value is ABSENT:
        if key is None:
            del holder.cell_contents
        elif isinstance(holder, dict):
            methods_of(holder).pop(holder, key, None)
        else:
            holder.pop(key, None)
    elif key is None:
        holder.cell_contents = value
    elif isinstance(key, slice):
        refill(holder, value)
    elif isinstance(holder, (Meta, TensorCore)):
        setattr(holder, key, value)
    elif isinstance(holder, (dict, list, deque)):
        methods_of(holder).__setitem__(holder, key, value)
    else:
        holder[key] = value


def put_back(holder: Any, held: dict[Any, Any]) -> None:
    """Restore a mapping, and its order if it has one."""
    if isinstance(holder, dict):
        kind = methods_of(holder)
        kind.clear(holder)
        kind.update(holder, held)
        return
    for key in [key for key in holder if key not in held]:
        del holder[key]
    for key, value in held.items():
        if held_at(holder, key) is not value:
            holder[key] = value


def refill(holder: Any, values: Any) -> None:
    """Replace the values of a list, deque or set."""
    kind = methods_of(holder)
    if isinstance(holder, (list, bytearray)):
        kind.__setitem__(holder, slice(None), values)
    elif isinstance(holder, array):
        kind.__setitem__(holder, slice(None), array(holder.typecode, values))
    else:
        kind.clear(holder)
        (kind.update if isinstance(holder, set) else kind.extend)(holder, values)
