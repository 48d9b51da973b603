"""Signatures of arguments: a step can't tell two arguments with the same signature apart.

`==` is not enough: 1 equals True, 0.0 equals -0.0, and users' classes define `__eq__` as they like.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.guards.places import Slots
from undertow._src.types.devices import device
from undertow._src.types.dtypes import dtype
from undertow._src.types.layouts import layout, memory_format
from undertow._src.types.sizes import Size

_BY_VALUE = frozenset((int, str, bytes, bool, type(None), type(Ellipsis), dtype, device, layout, memory_format, Size))
_BY_WORDS = frozenset((float, complex, Decimal, Fraction, range))  # types whose repr is complete


def signature(value: Any) -> Hashable:
    """Return a description that only interchangeable values share; for unknown objects, their identity."""
    kind = type(value)
    if kind in _BY_VALUE:
        return kind, value
    if kind in _BY_WORDS:
        return kind, repr(value)
    if kind in (tuple, frozenset):
        return kind, tuple(map(signature, value))  # the order of a frozenset counts, because code may iterate over it
    if kind is slice:
        return kind, signature((value.start, value.stop, value.step))
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return kind, value.dtype, value.tobytes()
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen and dataclasses.is_dataclass(value):
        return kind, attributes_of(value)
    return kind, "object", id(value)


def attributes_of(value: Any, entries: Mapping[Any, Any] | None = None) -> Hashable:
    """Describe the attributes of an object; one that is also an entry is described by that entry."""
    stored = {**instance_dict(value), **Slots(value)}
    places = {id(each): place for place, each in enumerate((entries or {}).values())}
    known = [("entry", places[id(each)]) if id(each) in places else signature(each) for each in stored.values()]
    return tuple(zip(stored, known))
