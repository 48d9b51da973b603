"""Counters: the user's numbers that each step changes, such as `self.steps += 1` or an annealed weight.

They are inputs of the program like an optimizer's options, and comparisons with them (`steps % 10 == 0`) are guarded
in the same way: a program serves as long as the outcomes are the same. Their values after a call are computed on
the host.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable
from typing import Any

from undertow._src.base.tree import map_leaves
from undertow._src.compile.guards.places import Numbers, Place, held_at, place_at, put
from undertow._src.compile.tracing.results import (
    FIXED,
    graph_is_left,
    hidden_in,
    nodes_behind,
    parts_of,
    scalars_in,
    tensors_in,
)
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar, Uncountable
from undertow._src.types.sizes import Size


class Given:
    """Stands for a number among a step's arguments: its place in a list of them, which each call fills."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place


def in_places(arguments: Any) -> Any:
    """Return arguments with places instead of plain numbers, in order."""
    places = itertools.count()
    return map_leaves(lambda leaf: Given(next(places)) if type(leaf) in (int, float) else leaf, arguments, ends=Size)


def from_places(arguments: Any, numbers: list[Any]) -> Any:
    """Return arguments with the current numbers in those places."""
    return map_leaves(lambda leaf: numbers[leaf.place] if type(leaf) is Given else leaf, arguments)


class Counters:
    """The places of such numbers, and their stand-ins during a trace."""

    def __init__(self, places: Iterable[tuple[Any, Any]]) -> None:
        self.places = list(places)
        self._known = {place_at(*place) for place in self.places}
        self._kinds = [*map(_kind, self.values())]
        self._held: list[Any] = []
        self._shown: list[Any] = []
        self.set_again: list[tuple[Any, Any, Any]] = []  # places that the step has set to the number that was there

    def values(self) -> list[Any]:
        """Return the current numbers."""
        return [held_at(*place) for place in self.places]

    def still_fit(self) -> bool:
        """Return whether they are still numbers of the same kind."""
        return [*map(_kind, self.values())] == self._kinds

    def other_kind(self) -> str:
        """Return the name of the first that is of another kind."""
        kinds = map(_kind, self.values())
        return next(self.name_of(place) for place, (now, was) in enumerate(zip(kinds, self._kinds)) if now != was)

    def name_of(self, number: int) -> str:
        """Return the name of one of them in the step."""
        holder, key = self.places[number]
        if isinstance(holder, Numbers):
            return holder.names[key]
        return "a variable" if key is None else f"`{key}`" if isinstance(key, str) else f"entry {key} of a container"

    def holds_place(self, holder: Any, key: Any) -> bool:
        """Return whether a number of a place is one of these."""
        return place_at(holder, key) in self._known

    def show(self, scalars: list[Any]) -> None:
        """Put the stand-ins into the places."""
        self._held, self._shown = self.values(), scalars
        for place, scalar in zip(self.places, scalars):
            put(*place, scalar)

    def shown(self) -> dict[Place, Any]:
        """Return the values that the trace finds in the places."""
        return {place_at(*place): scalar for place, scalar in zip(self.places, self._shown)}

    def untouched(self) -> dict[Place, tuple[Any, Any]]:
        """Return the values in the places before the trace, and their stand-ins in the trace."""
        return {place_at(*place): (held, shown) for place, held, shown in zip(self.places, self._held, self._shown)}

    def take_back(self) -> None:
        """Restore the numbers that the step has not changed."""
        for place, held, shown in zip(self.places, self._held, self._shown):
            now = held_at(*place)
            if now is shown:
                put(*place, held)
            elif now is held:
                self.set_again.append((*place, held))

    def restore(self) -> None:
        """Restore all numbers."""
        for place, held in zip(self.places, self._held):
            put(*place, held)

    def check(self, left: list[tuple[Any, ...]], result: Any, known: Container[int]) -> None:
        """Refuse symbolic scalars that a step leaves as keys or in functions. Results, entries and graphs may hold them."""
        if not self.places:
            return
        if any(isinstance(entry[1], SymbolicScalar) for entry in left):
            raise Uncountable
        waiting = [result, *[part for entry in left for part in entry[2:]]]
        graphs = [tensor._edge for tensor in tensors_in(waiting, known) if graph_is_left(tensor)]
        if any(hidden for _, hidden in scalars_in(nodes_behind(graphs))):
            raise Uncountable
        if any(isinstance(value, SymbolicScalar) for value in hidden_in(waiting, known)):
            raise Uncountable
        seen: set[int] = set()
        while waiting:
            value = waiting.pop()
            if not isinstance(value, FIXED) and id(value) not in seen and id(value) not in known:
                seen.add(id(value))
                if isinstance(value, dict) and any(isinstance(key, SymbolicScalar) for key in value):
                    raise Uncountable
                waiting += parts_of(value)


def _kind(value: Any) -> Any:
    """Return the type of a number; -0.0 has its own kind, because it equals 0.0."""
    return "-0.0" if type(value) is float and repr(value) == "-0.0" else type(value)
