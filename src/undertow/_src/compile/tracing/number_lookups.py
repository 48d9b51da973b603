"""Lookups by numbers that are inputs of a program: `rates[step]` in a table of numbers, `step in milestones`.

Python's containers need the number itself. So where a traced function looks something up, one of these functions is called
instead (see `recompiled_functions`): the host looks the entry up before each call, as an input of the program. What is in
the containers is guarded, as everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.base import tracer
from undertow._src.compile.tracing.host_scalar_functions import computed_on_host
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar, Whole, exact_key

_NUMBERS = frozenset((int, float, np.float64))
_KEYS = frozenset((int, float, str))


def entry(holder: Any, key: Any) -> Any:
    """Return holder[key]."""
    if type(key) is not Whole or tracer.current is None:
        return holder[key]
    if type(holder) in (list, tuple):
        table = tuple(holder)
        if not _NUMBERS.issuperset(map(type, table)) or not -len(table) <= key < len(table):
            return holder[key]
        return computed_on_host(table.__getitem__, (key,), ("entry of", exact_key(table)))
    if type(holder) is np.ndarray and holder.ndim == 1 and holder.dtype == np.float64:
        array = holder.copy()
        if not -len(array) <= key < len(array):
            return holder[key]
        return computed_on_host(lambda place: array[place], (key,), ("entry of", array.tobytes()))
    if type(holder) is dict and _NUMBERS.issuperset(map(type, holder.values())) and is_in(key, holder):
        entries = dict(holder)
        return computed_on_host(entries.__getitem__, (key,), ("entries of", exact_key((*entries.items(),))))
    return holder[key]


def is_in(value: Any, holder: Any) -> Any:
    """Return `value in holder`."""
    is_number = isinstance(value, SymbolicScalar) and not value.is_asked
    if not is_number or type(holder) not in (dict, set, frozenset) or not _KEYS.issuperset(map(type, holder)):
        return value in holder
    return value._answer(_is_among, frozenset(holder))


def _is_among(value: Any, values: frozenset[Any]) -> bool:
    return value in values
