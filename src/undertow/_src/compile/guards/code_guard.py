"""The guard on the code that a step runs: a notebook may reload a file, a test may patch a method.

Of the user's functions, classes and objects, all code is guarded; of undertow's, what the step's code names: the
`forward` of layers and the methods of tensors. Functions in modules are names in them, which `snapshot` looks at.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter, is_
from types import FunctionType
from typing import Any

from undertow._src.compile.guards.guard import Check, Guard
from undertow._src.compile.guards.memory_words import Words, offset_in
from undertow._src.compile.guards.places import ABSENT
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.tracing.results import cached_by, objects_cached_by
from undertow._tensor import Tensor

_OF_FUNCTIONS = [attrgetter(name) for name in ("__code__", "__defaults__", "__kwdefaults__")]
_ORDER = attrgetter("__mro__")
_FORWARD = attrgetter("forward")


def _watch_look(words: Words, look: Callable[[Any], Any], each: Any, was: Any) -> bool:
    """Watch a part of some code. Return False if words do not show its changes."""
    if look is type:
        words.type_of(each, was)
        return True
    if look in _OF_FUNCTIONS and type(each) is FunctionType:
        words.expect(id(each) + _offsets()[look], 0 if was is None else id(was))
        return True
    offset = offset_in(each, was) if look is _ORDER else None
    if offset is not None:
        words.slot(each, offset, was)
    return offset is not None


@cache
def _offsets() -> dict[Callable[[Any], Any], int]:
    """Return the offsets of the parts of functions; a missing part is a null pointer."""

    def probe(a: int = 0, *, b: int = 0) -> None: ...

    found = {look: offset_in(probe, look(probe)) for look in _OF_FUNCTIONS}
    return {look: offset for look, offset in found.items() if offset is not None}


class CodeGuard(Guard):
    """Guard functions and classes, and the tensors that cached functions (`functools.lru_cache`) keep."""

    def __init__(self, state: Reached) -> None:
        self._modules, self._kinds = state.modules, [*map(type, state.modules)]
        self.layers = list(dict.fromkeys(map(type, state.modules)))
        self.caches = [function for function, _ in state.caches]
        looks: list[tuple[Callable[[Any], Any], list[Any]]] = [
            *[(look, state.functions) for look in _OF_FUNCTIONS], (_ORDER, state.classes), (type, state.objects),
            (type, state.tensors), (_FORWARD, self.layers),
        ]  # fmt: skip
        self._looks, self._of = [look for look, of in looks if of], [of for _, of in looks if of]
        self._before = [*self._now()]
        self.names = [
            (vars(kind), name, vars(kind).get(name, ABSENT))
            for kind in (Tensor, *state.other_classes)
            for name in sorted(state.names_in_code().intersection(dir(kind)))
        ]  # of other classes, the names in the step's code; an inherited method may be overridden later
        self.cached = self._cached()
        self._results: list[tuple[Any, int, list[Any], list[Any]]] = []

    def note_results(self) -> None:
        """Record what cached functions keep after the trace: later calls find it there."""
        self._results = [
            (each, each.cache_info().misses, gc.get_referents(each), objects_cached_by(each)) for each in self.caches
        ]

    def _are_kept(self) -> bool:
        """Return whether cached functions still keep all of it, or have dropped entries only because they are full.

        They must keep the same tensors as before the trace, and the same mutable objects as after it.
        """
        return [*map(id, self._cached())] == [*map(id, self.cached)] and not any(
            _was_cleared(function.cache_info(), misses)
            or not _holds(function, objects if _is_full(function.cache_info()) else held)
            for function, misses, held, objects in self._results
        )

    def _now(self) -> Iterator[Any]:
        return chain.from_iterable(map(map, self._looks, self._of))

    def _cached(self) -> list[Any]:
        return [*chain.from_iterable(map(cached_by, self.caches))]

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "functions, classes and layers, by their code"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._before)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether no code has changed; a `VariableGuard` compares the names."""
        if [*map(type, self._modules)] != self._kinds or not all(map(is_, self._now(), self._before)):
            return False
        return not self.caches or self._are_kept()

    def watch(self, words: Words) -> Check | None:
        """Watch the classes of objects, and the parts of functions."""
        before = iter(self._before)
        others = []
        for look, each in [(look, each) for look, of in zip(self._looks, self._of) for each in of]:
            was = next(before)
            if not _watch_look(words, look, each, was):
                others.append((look, each, was))
        for module, kind in zip(self._modules, self._kinds):
            words.type_of(module, kind)

        def hold(arguments: Sequence[Any]) -> bool:
            for look, each, was in others:
                if look(each) is not was:
                    return False
            return not self.caches or self._are_kept()

        return hold if others or self.caches else None

    def reason(self) -> str:
        """Return a function or class that changed, in words."""
        for module, kind in zip(self._modules, self._kinds):
            if type(module) is not kind:
                return f"a {kind.__name__} is a {type(module).__name__} now"
        for each, now, was in zip(chain.from_iterable(self._of), self._now(), self._before):
            if now is not was:
                return f"the code of {getattr(each, '__qualname__', type(each).__qualname__)} changed"
        return "the cache of a function (functools.lru_cache) changed"


def _was_cleared(cache: Any, misses: int) -> bool:
    return cache.misses < misses


def _is_full(cache: Any) -> bool:
    return cache.currsize == cache.maxsize


def _holds(function: Any, held: list[Any]) -> bool:
    return {*map(id, gc.get_referents(function))}.issuperset(map(id, held))
