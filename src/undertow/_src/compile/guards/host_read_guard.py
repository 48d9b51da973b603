"""Tensors that calls on the host find in Python objects, besides those that they are given.

Such a tensor has the value from before the step, or from the end of an earlier one. If the step writes to it, the calls
have to see its value at that point, so the trace has to know that they find it. Other tensors may come into such places
later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CellType
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.effects.findings import Place
from undertow._src.compile.effects.objects import held_by
from undertow._src.compile.guards.alias_guards import Memory
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.places import ABSENT, EXACT, contents_of, held_at, holder_of
from undertow._src.compile.tracing.arguments import Arguments
from undertow._src.compile.tracing.results import values_in
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer

_CONTAINERS = (list, tuple, dict, deque, set, frozenset)
FOUND = (TensorCore, np.ndarray, Module, Optimizer)


def is_container(place: Place) -> bool:
    """Return whether a place is a whole container."""
    return place.name is None and isinstance(place.owner, _CONTAINERS)


def value_at(place: Place) -> Any:
    """Return the value in a place."""
    owner, name = place
    if name is None:
        return contents_of(owner) if isinstance(owner, CellType) else owner
    holder = holder_of(owner, name)
    return ABSENT if holder is None else held_at(holder, name)


def found_at(place: Place, deep: bool = True, seen: set[int] | None = None) -> list[Any]:
    """Return the tensors, arrays, modules and optimizers in a place, and in containers and objects there if it is `deep`.

    Otherwise these have separate places, if the code reads them. Containers that were seen before are left out.
    """
    if deep:
        return _within([place.owner if is_container(place) else value_at(place)], set() if seen is None else seen)
    if is_container(place):
        values = [*held_by(place.owner)]
    else:
        values = [value_at(place)]
    return [each for each in _unfolded(values) if isinstance(each, FOUND)]


def _within(values: Iterable[Any], seen: set[int]) -> list[Any]:
    """Return the leaves of nested values. Long lists of tensors and numbers take little time."""
    found, others, waiting = list[Any](), list[Any](), [values]
    while waiting:
        values = waiting.pop()
        if EXACT.issuperset(map(type, values)):
            continue
        for each in values:
            if type(each) is Tensor and not each.__dict__:
                found.append(each)
            elif type(each) in _CONTAINERS:
                if id(each) not in seen:
                    seen.add(id(each))
                    waiting.append(each.values() if type(each) is dict else each)
            elif type(each) not in EXACT:
                others.append(each)
    return found + values_in(others, (), FOUND)


def _unfolded(values: Iterable[Any]) -> Iterator[Any]:
    """Yield values, and the items of tuples among them: tuples are not places, because they never change."""
    for each in values:
        if isinstance(each, (tuple, frozenset)):
            yield from _unfolded(each)
        else:
            yield each


@dataclass(eq=False)
class HostReads:
    """What calls on the host found during a trace."""

    places: list[Place] = field(default_factory=list)  # places that no other guard compares
    known: dict[int, Any] = field(default_factory=dict)  # the values there, by id
    own: set[int] = field(default_factory=set)  # ids of the tensors, modules and optimizers that the step reaches
    shown: set[int] = field(default_factory=set)  # ids of the buffers that all those calls see anyway
    may_write: bool = False  # whether one of those calls may write to tensors that it finds


@dataclass(frozen=True, eq=False)
class Used:
    """Buffers that a program uses: the step's own, and those of arguments, gradients and carried state."""

    memories: list[Memory]
    given: Arguments
    places: list[int]  # among the arguments, gradients and carried state

    def arrays(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the arrays of these buffers in a call."""
        arrays: list[Any] = []
        for tensor, held, buffer in self.memories:
            arrays += [tensor._array, held, buffer.host]
        if self.places:
            given = self.given.and_gradients(arguments[: self.given.count])
            arrays += [given[place]._array for place in self.places if given[place] is not None]
        return arrays


class HostReadGuard(Guard):
    """Guard that calls on the host find no tensor that the program writes to without updating it for them.

    If the calls may write to what they find, the program may not read it either; writes to arrays are not known.
    """

    def __init__(self, reads: HostReads, written: Used, read: Used) -> None:
        self._reads, self._written, self._read = reads, written, read

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "whether hooks on the host find tensors that the program writes to"

    @property
    def number(self) -> int:
        """Return the number of places that they read."""
        return len(self._reads.places)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether all values that are found are known, or have nothing to do with the program."""
        known = self._reads.known
        seen = set[int]()
        every = [each for place in self._reads.places for each in found_at(place, seen=seen)]
        found = [each for each in every if known.get(id(each)) is not each]
        if not found:
            return True
        if not self._reads.own.isdisjoint(map(id, found)):
            return False
        on_host = [each for each in found if isinstance(each, np.ndarray)]
        arrays = [each._array for each in found if isinstance(each, TensorCore) and each._is_strided]
        written, read = self._written.arrays(arguments), self._read.arrays(arguments)
        if share_memory(arrays, [*written, *read] if self._reads.may_write else written):
            return False
        return not share_memory(on_host, [*written, *read])

    def reason(self) -> str:
        """Return what changed, in words."""
        return "a hook on the host finds a tensor of the step in a list, a dict or an object where there was none"


def share_memory(arrays: Iterable[Any], memories: Iterable[Any]) -> bool:
    """Return whether one of some arrays shares memory with one of some others."""
    memories = [*memories]
    buffers = {id(each.buffer) for each in memories if type(each) is DeviceArray}
    on_host = [each for each in memories if isinstance(each, np.ndarray)]
    for array in arrays:
        if type(array) is DeviceArray:
            if id(array.buffer) in buffers:
                return True
        elif isinstance(array, np.ndarray) and any(np.may_share_memory(array, each) for each in on_host):
            return True
    return False
