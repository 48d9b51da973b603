"""Words of memory that guards depend on, compared in one pass.

Checking a thousand parameters one by one takes Python a millisecond. But CPython never moves an
object, and nearly all that guards look at is one word at a known address: the pointer in a slot or a closure cell, the
type of an object, the size of a container, the version of a dict (each change of any dict gives it a new one). `Words`
reads all of them in one pass. As long as every word is what it has to be, the guards hold and none of them is asked.

What makes that exact:

- A pointer is compared with the address of an object that is kept alive here, so that no other can have its address.
- A word of an object that is not kept alive is on a later *level* than the pointer to that object, and is read only
  if that pointer is what it was. Such words are expected to be what the guard demands, never what they happened to be.
- Versions of dicts are read before the guards are asked, so that a change in between is noticed at the next call.
- No other thread runs during a pass (`unchanged`), so that nothing dies between the levels.

Where objects do not lie in memory as expected (`AVAILABLE`: another Python), guards are asked one by one.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cache
from operator import eq
from types import MappingProxyType
from typing import Any

import numpy as np

_BASE = 8  # the address of the first word
_SIZE, _SET_SIZE, _ITEMS, _VERSION, _CELL = 16, 24, 24, 24, 16  # offsets of words in objects
_DATA, _N_DIMS, _SHAPE, _STRIDES, _DTYPE = 16, 24, 32, 40, 56  # in NumPy arrays
TYPE = 8
_KEYS, _VALUES = 32, 40  # in dicts: the table of entries; values, if the table is shared by several dicts
_MANAGED = 1 << 4  # flag of classes whose instances have the pointer to their dict in front
_MANAGED_DICT = -24
_LINKS = 88  # in OrderedDicts: how often their order was changed
_LEVELS = 3
_AT_ONCE = 500  # NumPy lets other threads run if it reads more


_BYTES = np.ndarray.tobytes


class Words:
    """Words of memory, and what each has to be."""

    def __init__(self) -> None:
        self._wanted: list[dict[int, int]] = [{} for _ in range(_LEVELS)]
        self._kept: list[Any] = []
        self._is_sound = True  # whether no word must have two different values
        self._places: list[np.ndarray[Any, Any]] = []
        self._expected: list[bytes] = []

    def expect(self, address: int, word: int, level: int = 0) -> None:
        """Add a word, and its expected value."""
        if self._wanted[level].setdefault(address, word) != word:
            self._is_sound = False

    def keep(self, kept: Any) -> Any:
        """Keep an object alive, and return it."""
        self._kept.append(kept)
        return kept

    # --- what objects that are alive hold

    def slot(self, owner: Any, offset: int, value: Any) -> None:
        """Expect a slot of an object to hold a value; both are kept alive by the caller, or later by the slot."""
        self.expect(id(owner) + offset, id(value))

    def type_of(self, owner: Any, kind: type) -> None:
        """Expect an object to be of a type."""
        self.expect(id(owner) + TYPE, id(kind))

    def size_of(self, container: Any, size: int) -> None:
        """Expect a dict, a list or a set to have this number of entries."""
        self.expect(id(container) + (_SET_SIZE if isinstance(container, (set, frozenset)) else _SIZE), size)

    def version_of(self, mapping: dict[Any, Any]) -> None:
        """Expect that nothing is changed in a dict from now on."""
        for offset in (_VERSION, _LINKS) if isinstance(mapping, OrderedDict) else (_VERSION,):
            self.expect(id(mapping) + offset, _read(id(mapping) + offset))

    def version_of_class(self, names: Any) -> bool:
        """Expect that nothing is changed in a class, given `vars` of it. Return False if that is something else."""
        own = gc.get_referents(names) if type(names) is MappingProxyType else []
        if len(own) != 1 or type(own[0]) is not dict:
            return False
        self.version_of(self.keep(own[0]))
        return True

    def entry_of(self, mapping: dict[Any, Any], name: Any, value: Any) -> bool:
        """Expect a dict that may well change to hold a value under a name. Return False if it isn't found there."""
        if type(name) is not str or _read(id(mapping) + _VALUES):
            return False
        name, table = self.keep(sys.intern(name)), _read(id(mapping) + _KEYS)
        size = dict.__sizeof__(mapping) - dict.__basicsize__
        words = _memory[(table - _BASE) // 8 : (table - _BASE + size) // 8]
        for place in np.flatnonzero(words == id(value)).tolist():
            if place and int(words[place - 1]) == id(name):
                self.expect(id(mapping) + _KEYS, table)
                self.expect(table + 8 * (place - 1), id(name), level=1)
                self.expect(table + 8 * place, id(value), level=1)
                return True
        return False

    def items_of(self, items: list[Any], kept: Sequence[Any]) -> None:
        """Expect a list to hold these objects."""
        start = _read(id(items) + _ITEMS)
        self.size_of(items, len(kept))
        self.expect(id(items) + _ITEMS, start)
        for place, each in enumerate(kept):
            self.expect(start + 8 * place, id(each), level=1)

    def contents_of(self, cell: Any, contents: Any) -> None:
        """Expect a closure cell to hold a value."""
        self.expect(id(cell) + _CELL, id(contents))

    def attributes_of(self, owner: Any, attributes: dict[str, Any]) -> bool:
        """Expect the attributes of an object to be in this dict. Return False if the object keeps it elsewhere."""
        address = id(owner) + _MANAGED_DICT
        if not type(owner).__flags__ & _MANAGED or _read(address) != id(attributes):
            return False
        self.expect(address, id(attributes))
        return True

    def array_at(self, array: np.ndarray[Any, Any], layout: tuple[Any, Any, Any], level: int) -> None:
        """Expect an array to lie in memory as it does, given the level of the pointer to it."""
        shape, dtype, strides = layout
        for offset, word in ((TYPE, id(np.ndarray)), (_DTYPE, id(self.keep(dtype)))):
            self.expect(id(array) + offset, word, level + 1)
        for offset in (_N_DIMS, *((_SHAPE, _STRIDES) if shape else ())):
            self.expect(id(array) + offset, _read(id(array) + offset), level + 1)
        for offset, numbers in ((_SHAPE, shape), (_STRIDES, strides if array.size else ())):
            for place, number in enumerate(numbers):
                self.expect(_read(id(array) + offset) + 8 * place, number & (2**64 - 1), level + 2)

    def data_of(self, array: np.ndarray[Any, Any]) -> int:
        """Expect an array that is kept alive to stay where its data are. Return the address of those."""
        address = _read(id(array) + _DATA)
        self.expect(id(array) + _DATA, address)
        return address

    # ---

    def prepare(self) -> None:
        """Make the arrays that a pass needs, now that all words are known."""
        for wanted in self._wanted:
            addresses = sorted(wanted)
            for begin in range(0, len(addresses), _AT_ONCE):
                part = addresses[begin : begin + _AT_ONCE]
                self._places.append(_places(part))
                self._expected.append(np.array([wanted[address] for address in part], np.uint64).tobytes())
        self._wanted = []

    def unchanged(self) -> bool:
        """Return whether every word is what it has to be.

        It is one expression without Python code in between, so that no other thread runs before the last word is read.
        """
        return self._is_sound and all(map(eq, map(_BYTES, map(_memory.__getitem__, self._places)), self._expected))


class EqualNumbers:
    """Numbers in the memories of several arrays, which have to be equal."""

    def __init__(self, addresses: Iterable[int], dtype: np.dtype[Any]) -> None:
        self._memory = _memory_of(dtype.itemsize)
        self._places, self._size = _places(addresses, dtype.itemsize), dtype.itemsize

    def hold(self) -> bool:
        """Return whether they are equal."""
        read = self._memory.take(self._places).tobytes()
        return read == read[: self._size] * len(self._places)


@cache
def offset_of(kind: type, name: str) -> int:
    """Return where instances of a class keep a slot."""
    probe: Any = object.__new__(kind)
    value = object()
    setattr(probe, name, value)
    return next(offset for offset in range(16, kind.__basicsize__, 8) if _read(id(probe) + offset) == id(value))


def offset_in(owner: Any, value: Any) -> int | None:
    """Return where an object itself has a pointer to a value; None if that is not one place."""
    size = type(owner).__basicsize__
    found = [offset for offset in range(16, size, 8) if _read(id(owner) + offset) == id(value)]
    return found[0] if len(found) == 1 else None


def _read(address: int) -> int:
    return int(_memory[(address - _BASE) // 8])


def _places(addresses: Iterable[int], size: int = 8) -> np.ndarray[Any, Any]:
    return (np.array([*addresses], np.int64) - _BASE) // size


@cache
def _memory_of(size: int) -> np.ndarray[Any, Any]:
    """Return the memory of the process, as words of `size` bytes. Only addresses of live objects may be read."""
    word: Any = {4: ctypes.c_uint32, 8: ctypes.c_uint64}[size]
    memory = np.frombuffer((word * (2**47 // size)).from_address(_BASE), np.dtype(f"u{size}"))
    memory.flags.writeable = False
    return memory


def _lies_as_expected() -> bool:
    """Return whether objects of this Python lie in memory as this module takes for granted."""
    is_usual = sys.implementation.name == "cpython" and sys.maxsize == 2**63 - 1
    if not is_usual or sysconfig.get_config_var("Py_GIL_DISABLED") or sys.version_info >= (3, 13):
        return False  # later Pythons count no versions of dicts
    value = object()
    mapping, items, elements, cell, owner = {"a": value}, [value, value], {1, 2, 3}, _cell(value), _Owner()
    owner.a = value
    array = np.zeros((2, 3), np.float32)
    ordered, links = OrderedDict(a=value, b=value), []
    versions = []
    for change in (lambda: mapping.update(b=value), lambda: mapping.pop("b"), lambda: mapping.update(a=None)):
        versions.append(_read(id(mapping) + _VERSION))
        change()
    for key in ("a", "b"):
        links.append(_read(id(ordered) + _LINKS))
        ordered.move_to_end(key)
    links.append(_read(id(ordered) + _LINKS))
    attributes = vars(owner)
    versions.append(_read(id(attributes) + _VERSION))
    for _ in range(100):  # until the interpreter has specialized the assignment
        owner.a = object()
        versions.append(_read(id(attributes) + _VERSION))
    return (
        len({*versions}) == len(versions)
        and len({*links}) == len(links)
        and _read(id(value) + TYPE) == id(object)
        and _read(id(mapping) + _SIZE) == 1
        and _read(id(items) + _SIZE) == 2
        and _read(id(elements) + _SET_SIZE) == 3
        and _read(_read(id(items) + _ITEMS)) == id(value)
        and _read(id(cell) + _CELL) == id(value)
        and _read(id(owner) + _MANAGED_DICT) == id(attributes)
        and Words().entry_of(globals(), "_Owner", _Owner)
        and Words().version_of_class(vars(_Owner))
        and _read(id(array) + _DATA) == array.ctypes.data
        and _read(id(array) + _N_DIMS) & 0xFFFFFFFF == 2
        and [_read(_read(id(array) + _SHAPE) + 8 * place) for place in (0, 1)] == [2, 3]
        and [_read(_read(id(array) + _STRIDES) + 8 * place) for place in (0, 1)] == [12, 4]
        and _read(id(array) + _DTYPE) == id(array.dtype)
    )


class _Owner:
    a: Any


def _cell(value: Any) -> Any:
    def inner() -> Any:
        return value

    return (inner.__closure__ or ())[0]


_memory = _memory_of(8)
AVAILABLE = _lies_as_expected()
