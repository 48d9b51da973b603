"""The code that a step runs, which may be replaced between calls: by a notebook that loads a file again, by a patch.

Of the user's functions, classes and objects all counts that is not data; of undertow's, what the step's code names: the
`forward` of layers and the methods of tensors. Functions in modules are names in them, which `snapshot` looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import attrgetter, is_
from types import FunctionType
from typing import Any

from undertow._tensor import Tensor
from undertow.xla.reach import Reached
from undertow.xla.results import cached_by

_OF_FUNCTIONS = [attrgetter(name) for name in ("__code__", "__defaults__", "__kwdefaults__")]
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
        looks: list[tuple[Callable[[Any], Any], list[Any]]] = [
            *[(look, self.functions) for look in _OF_FUNCTIONS], (_ORDER, self.classes), (type, self.objects),
            (_FORWARD, self.layers), (_METHODS.get, self.methods),
        ]  # fmt: skip
        self.before = [(look, of, [*map(look, of)]) for look, of in looks if of]
        self.cached = self._cached()

    def _cached(self) -> list[Any]:
        return [*chain.from_iterable(map(cached_by, self.caches))]

    def holds(self) -> bool:
        """Whether all of it is what it was."""
        for look, of, before in self.before:
            if not all(map(is_, map(look, of), before)):
                return False
        return not self.caches or [*map(id, self._cached())] == [*map(id, self.cached)]

    def difference(self) -> str:
        """What is not, in words."""
        for look, of, before in self.before:
            for each, was in zip(of, before):
                if look(each) is not was:
                    name = getattr(each, "__qualname__", type(each).__qualname__)
                    return f"the code of {f'Tensor.{each}' if of is self.methods else name} is other code now"
        return "a function that keeps what it gave (functools.lru_cache) keeps other tensors"
