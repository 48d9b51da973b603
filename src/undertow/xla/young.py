"""Which objects came into being during a trace: those that eager code would make at every call.

What is there when a trace begins is frozen: Python's collector leaves it alone, and lists only what came later, whether or
not somebody collects garbage meanwhile.
"""

from __future__ import annotations

import gc
from typing import Any

from undertow._core import TensorCore
from undertow.autograd.node import Node
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer
from undertow.xla.containers import CONTAINERS, UNCHANGING, contents_of
from undertow.xla.effects import trust
from undertow.xla.numbers import Figure

_NEVER_COPIED = (TensorCore, Module, Optimizer, Node, type)


class Young:
    """A block during which it can be told which containers and objects are new."""

    def __enter__(self) -> None:
        gc.freeze()

    def __exit__(self, *exc: Any) -> None:
        gc.unfreeze()

    def ids(self) -> set[int]:
        """The ids of new objects; of those without references to others only some."""
        return {*map(id, gc.get_objects())}


def is_own(value: Any, outside: set[int], young: set[int]) -> bool:
    """Whether a container or an object is one that the step makes at every call, or one that holds tensors or numbers of
    the program."""
    if not isinstance(value, CONTAINERS):
        new = id(value) in young and id(value) not in outside
        return new and trust.home(type(value)) == "user" and not isinstance(value, _NEVER_COPIED)
    if id(value) in outside and not isinstance(value, UNCHANGING):
        return False
    if isinstance(value, UNCHANGING) or not (id(value) in young or not gc.is_tracked(value)):
        parts = [part.value for part in contents_of(value)]
        return any(isinstance(part, (TensorCore, Figure)) or is_own(part, outside, young) for part in parts)
    return True
