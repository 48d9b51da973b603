"""Attributes and elements of live objects, looked up without running the program's code."""

from __future__ import annotations

import gc
import sys
import threading
import types
from array import array
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from undertow._src.base.hooks import CountedHooks
from undertow._src.base.lazy import LateMethod
from undertow.nn import Module

MISSING = type("Missing", (), {"__repr__": lambda self: "missing"})()
_CONTAINERS: tuple[Any, ...] = (
    CountedHooks, OrderedDict, dict, list, deque, set, bytearray, array, tuple, frozenset
)  # fmt: skip
_WITH_DATA = (UserDict, UserList, WeakKeyDictionary)
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
order_of = type.__dict__["__mro__"].__get__  # without a metaclass's attributes of these names
_names_of = type.__dict__["__dict__"].__get__


def in_class(kind: type, name: str, after: type | None = None) -> Any:
    """Return the attribute of a class or of its bases, not bound to an object."""
    order = order_of(kind)
    if after is not None:
        order = order[order.index(after) + 1 :] if after in order else ()
    for parent in order:
        found = _names_of(parent).get(name, MISSING)
        if found is not MISSING:
            return found.find() if type(found) is LateMethod else found
    return MISSING


def instance_dict(owner: Any) -> dict[str, Any]:
    if isinstance(owner, threading.local):  # one for each thread
        return owner.__dict__
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def held_by_variable(variable: ContextVar[Any]) -> Any:
    """Return the value of a context variable, or its default; MISSING if it has neither."""
    try:
        return variable.get()
    except LookupError:
        return MISSING


def stored(owner: Any, name: str) -> Any:
    """Return the value that an object stores under a name: in its dict, a slot, or a module's tables; else MISSING."""
    found = instance_dict(owner).get(name, MISSING)
    if found is not MISSING:
        return found
    if isinstance(owner, Module):
        for table in ("_parameters", "_buffers", "_modules"):
            found = instance_dict(owner).get(table, {}).get(name, MISSING)
            if found is not MISSING:
                return found
    descriptor = in_class(type(owner), name)
    if type(descriptor) in _SLOTS:
        try:
            return descriptor.__get__(owner)
        except (AttributeError, TypeError):
            return MISSING
    return MISSING


def is_namespace(value: Any) -> bool:
    """Return whether a dict holds the names of a module, or all modules."""
    return value is sys.modules or (type(value) is dict and ("__builtins__" in value or _is_of_module(value)))


def _is_of_module(value: dict[Any, Any]) -> bool:
    return "__name__" in value and "__loader__" in value and "__spec__" in value


def static_value(owner: Any, name: str) -> Any:
    """Return the plain value of an attribute, stored in the object or its class; MISSING if code would compute it."""
    if isinstance(owner, type):
        return in_class(owner, name)
    found = stored(owner, name)
    return found if found is not MISSING else in_class(type(owner), name)


def element(owner: Any, key: Any) -> Any:
    """Return an element of a builtin container; MISSING if there is none. A defaultdict is not changed."""
    try:
        return dict.get(owner, key, MISSING) if isinstance(owner, dict) else owner[key]
    except (LookupError, TypeError):
        return MISSING


def wrapped_by(value: Any) -> list[Any]:
    """Return the containers that an object of the standard library shows as its own contents."""
    if isinstance(value, types.MappingProxyType):
        return [each for each in gc.get_referents(value) if isinstance(each, (dict, ChainMap))]
    if isinstance(value, ChainMap):
        return list(value.maps)
    data: Any = getattr(value, "data", None)  # three classes without a common base that has it
    return [data] if isinstance(value, _WITH_DATA) else []


def descendants(module: Any) -> list[Any]:
    """Return a module and all its submodules, each once, without calling methods that a user may have replaced."""
    found, waiting = [], [module]
    seen = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        found.append(each)
        waiting.extend(reversed(list(instance_dict(each).get("_modules", {}).values())))
    return found


def methods_of(holder: Any) -> Any:
    """Return the class whose methods change a container and do nothing else: a subclass of the user may refuse,
    or count.
    """
    exact = type(holder)
    return exact if exact is dict or exact is list else next(kind for kind in _CONTAINERS if isinstance(holder, kind))


def entries_of(holder: Any) -> dict[Any, Any]:
    """Return the entries of a mapping, without calling methods of the user's class (`__getitem__`, `items`)."""
    if type(holder) is dict:
        return holder.copy()
    return dict(methods_of(holder).items(holder) if isinstance(holder, dict) else holder)


def held_by(holder: Any) -> Any:
    """Return an iterable of the values that a container holds whenever it is iterated over."""
    if isinstance(holder, dict):
        return methods_of(holder).values(holder)
    if isinstance(holder, Mapping):
        return holder.values()
    if not isinstance(holder, _CONTAINERS):
        return holder
    kind, own = type(holder), methods_of(holder)
    return holder if kind.__iter__ is own.__iter__ and kind.__len__ is own.__len__ else _Items(holder, own)


def keys_in(holder: Any) -> Any:
    """Return an iterable of the keys that a mapping has whenever it is iterated over."""
    return methods_of(holder).keys(holder) if isinstance(holder, dict) and type(holder) is not dict else holder


class _Items:
    """The values in a container whose class overrides iteration."""

    def __init__(self, holder: Any, methods: Any) -> None:
        self._holder, self._methods = holder, methods

    def __iter__(self) -> Iterator[Any]:
        return self._methods.__iter__(self._holder)

    def __len__(self) -> int:
        return self._methods.__len__(self._holder)
