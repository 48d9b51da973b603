"""The code that a step runs, which may be replaced between calls: by a notebook that loads a file again, by a patch.

Of the user's functions, classes and objects all counts that is not data; of undertow's, what the step's code names: the
`forward` of layers and the methods of tensors. Functions in modules are names in them, which `snapshot` looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import attrgetter, is_
from types import FunctionType
from typing import Any

from undertow._tensor import Tensor
from undertow.xla.reach import Reached
from undertow.xla.results import cached_by

_CODE = attrgetter("__code__", "__defaults__", "__kwdefaults__")
_ORDER = attrgetter("__mro__")
_FORWARD = attrgetter("forward")
_METHODS = vars(Tensor)


class Code:
    """What it was at one moment, with the tensors that cached functions (`functools.lru_cache`) keep."""

    def __init__(self, state: Reached) -> None:
        self.functions, self.classes, self.objects = state.functions, state.classes, state.objects
        self.layers = list(dict.fromkeys(map(type, state.modules)))
        self.methods = [name for name in sorted(state.mentioned) if type(_METHODS.get(name)) in (FunctionType, property)]
        self.caches = [function for function, _ in state.caches]
        self.before = [*self._now()]
        self.cached = self._cached()

    def _now(self) -> Iterator[Any]:
        return chain(
            chain.from_iterable(map(_CODE, self.functions)),
            map(_ORDER, self.classes),
            map(type, self.objects),
            map(_FORWARD, self.layers),
            map(_METHODS.get, self.methods),
        )

    def _cached(self) -> list[Any]:
        return [*chain.from_iterable(map(cached_by, self.caches))]

    def holds(self) -> bool:
        """Whether all of it is what it was."""
        if not all(map(is_, self._now(), self.before)):
            return False
        return not self.caches or [*map(id, self._cached())] == [*map(id, self.cached)]

    def difference(self) -> str:
        """What is not, in words."""
        names = [each.__qualname__ for each in self.functions for _ in range(3)]
        names += [kind.__qualname__ for kind in (*self.classes, *map(type, self.objects), *self.layers)]
        names += [f"Tensor.{name}" for name in self.methods]
        for name, now, before in zip(names, self._now(), self.before):
            if now is not before:
                return f"the code of {name} is other code now"
        return "a function that keeps what it gave (functools.lru_cache) keeps other tensors"
