"""The code that a step runs, which may be replaced between calls: by a notebook that loads a file again, by a patch.

Of the user's functions, classes and objects all counts that is not data; of undertow's, what the step's code names: the
`forward` of layers and the methods of tensors. Functions in modules are names in them, which `snapshot` looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import Any

from undertow._src.compile.guards.guard import Guard, counted
from undertow._src.compile.guards.places import ABSENT
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.tracing.results import cached_by
from undertow._tensor import Tensor

_OF_FUNCTIONS = [attrgetter(name) for name in ("__code__", "__defaults__", "__kwdefaults__")]
_ORDER = attrgetter("__mro__")
_FORWARD = attrgetter("forward")


class CodeGuard(Guard):
    """Guard functions and classes, and the tensors that cached functions (`functools.lru_cache`) keep."""

    def __init__(self, state: Reached) -> None:
        self._modules, self._kinds = state.modules, [*map(type, state.modules)]
        self.layers = list(dict.fromkeys(map(type, state.modules)))
        self.caches = [function for function, _ in state.caches]
        looks: list[tuple[Callable[[Any], Any], list[Any]]] = [
            *[(look, state.functions) for look in _OF_FUNCTIONS], (_ORDER, state.classes), (type, state.objects),
            (_FORWARD, self.layers),
        ]  # fmt: skip
        self._looks, self._of = [look for look, of in looks if of], [of for _, of in looks if of]
        self._before = [*self._now()]
        self.names = [
            (vars(kind), name, vars(kind).get(name, ABSENT))
            for kind in (Tensor, *state.other_classes)
            for name in sorted(state.mentioned.intersection(dir(kind)))
        ]  # of classes that are not the user's, what the step's code names; what a class inherits it may get itself
        self.cached = self._cached()

    def _now(self) -> Iterator[Any]:
        return chain.from_iterable(map(map, self._looks, self._of))

    def _cached(self) -> list[Any]:
        return [*chain.from_iterable(map(cached_by, self.caches))]

    @property
    def watches(self) -> str:
        """Say how much code there is."""
        return f"the code of functions, classes and layers ({counted(len(self._before), 'part')})"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether all of it is what it was; a `PlaceGuard` looks at the names."""
        if [*map(type, self._modules)] != self._kinds or not all(map(is_, self._now(), self._before)):
            return False
        return not self.caches or [*map(id, self._cached())] == [*map(id, self.cached)]

    def reason(self) -> str:
        """Name a function or class that is not."""
        for module, kind in zip(self._modules, self._kinds):
            if type(module) is not kind:
                return f"a {kind.__name__} is a {type(module).__name__} now"
        for each, now, was in zip(chain.from_iterable(self._of), self._now(), self._before):
            if now is not was:
                return f"the code of {getattr(each, '__qualname__', type(each).__qualname__)} is other code now"
        return "a function that keeps what it gave (functools.lru_cache) keeps other tensors"
