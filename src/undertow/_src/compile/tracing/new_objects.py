"""The objects that were made during a trace: eager code makes new ones in each call.

Python's garbage collector groups objects into generations by age. When a trace begins, all objects are moved to the oldest
generation. During the trace, the collector runs only if the step calls it, or to tell whether an object is new. Before each
run, the objects in the youngest generation are recorded.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Container
from typing import Any

from undertow._src.compile.callbacks.containers import CONTAINERS, UNCHANGING, contents_of
from undertow._src.compile.effects import purity
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.engine.node import Node
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer

_NEVER_COPIED = (TensorCore, Module, Optimizer, Node, type)


_NEVER = 1 << 30


class FewCollections:
    """A block without full garbage collections, which would take longer than much of a trace."""

    def __enter__(self) -> None:
        self._before = gc.get_threshold()
        self._meanwhile = *self._before[:2], _NEVER
        gc.set_threshold(*self._meanwhile)

    def __exit__(self, *exc: Any) -> None:
        if gc.get_threshold() == self._meanwhile:  # else the step has set it
            gc.set_threshold(*self._before)


class NewObjects:
    """A block that records which containers and objects are made inside it, and contains their ids.

    Objects without references to others may be missing.
    """

    def __init__(self, aside: Callable[..., Any]) -> None:
        self._aside = aside  # calls a function that is not part of the step

    def __enter__(self) -> None:
        self._noted: set[int] = set()
        self._aged = 0  # the oldest generation with new objects
        self._collects = gc.isenabled()
        gc.collect(1)
        gc.disable()
        gc.callbacks.append(self._note)

    def __exit__(self, *exc: Any) -> None:
        gc.callbacks.remove(self._note)
        del self._aside  # a cycle would keep the trace alive, with all that it has seen
        if self._collects:
            gc.enable()

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._noted.update(map(id, gc.get_objects(generation=0)))
            self._aged = max(self._aged, min(info["generation"] + 1, 2))

    def collect(self) -> None:
        """Collect garbage that was made in the block. The rest of the heap, which may be large, is left alone."""
        gc.collect(self._aged)

    def __contains__(self, number: object) -> bool:
        if number not in self._noted:
            self._aside(gc.collect, (0,), {})  # notes what is new since the last time, so each object only once
        return number in self._noted


def is_own(value: Any, outside: set[int], young: Container[int]) -> bool:
    """Return whether the step makes a container or an object in each call, or it holds tensors or numbers of
    the program."""
    waiting, seen = [value], set[int]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, (TensorCore, SymbolicScalar)) and each is not value:
            return True
        if id(each) in seen or (id(each) in outside and not isinstance(each, UNCHANGING)):
            continue
        seen.add(id(each))
        if not isinstance(each, CONTAINERS):
            may_be = purity.origin_of(type(each)) == "user" and not isinstance(each, _NEVER_COPIED)
            if may_be and id(each) in young:
                return True
        elif not isinstance(each, UNCHANGING) and (not gc.is_tracked(each) or id(each) in young):
            return True
        else:
            waiting += [part.value for part in contents_of(each)]
    return False
