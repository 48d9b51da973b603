"""The numbers of optimizers, which are inputs of a program: options in parameter groups, and counts of steps.

Everything else in the groups is watched. Step counts stay on the host, where PyTorch has them too: a count for each
parameter would be as many tiny operations of the program. Counts that are equal when the step is compiled are one number,
as long as they stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.guards.guard import Guard, counted
from undertow._src.compile.guards.places import change, described, same
from undertow._src.compile.tracing.counters import Counters
from undertow._src.compile.tracing.symbolic_scalars import Of, of
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import cpu
from undertow.optim.optimizer import Optimizer


class Options(Guard):
    """Guard optimizers' groups. Where the numbers are, what else there is, and which of them the step itself changes."""

    def __init__(self, optimizers: list[Optimizer], with_counts: bool, counters: Counters) -> None:
        self.counters = counters  # numbers of the user's, which come behind all others
        self.places: list[tuple[dict[str, Any], str, int | None]] = []
        self.fixed: list[tuple[dict[str, Any], str, Any]] = []
        self.changes: list[tuple[int, Of]] = []  # numbers that the step leaves otherwise, and how they follow
        # Several optimizers may share their groups.
        groups = {id(group): group for optimizer in optimizers for group in optimizer.param_groups}.values()
        self._sizes = [(group, len(group)) for group in groups]
        self._names = {
            id(group): f"{type(optimizer).__name__}.param_groups[{place}]"
            for optimizer in optimizers
            for place, group in enumerate(optimizer.param_groups)
        }
        for group in groups:
            for key, value in group.items():
                if type(value) is float:
                    self.places.append((group, key, None))
                elif type(value) is tuple and value and all(type(part) is float for part in value):
                    self.places += [(group, key, place) for place in range(len(value))]
                else:
                    self.fixed.append((group, key, value))
        self.counts = _equal_counts(optimizers) if with_counts else []
        self.extra: list[float] = []  # what schedulers will have left in the groups during the call; see `schedules`
        self.counted: list[tuple[Of, list[Any]]] = []  # how counts follow that the step changes, those alike together

    def values(self) -> list[float]:
        """Return the numbers as they are now."""
        numbers = self.in_groups()
        if self.counts:
            numbers += [counts[0]._array.item() for counts in self.counts]
        return numbers + self.counters.values() if self.counters.places else numbers

    def in_groups(self) -> list[float]:
        """Those of the groups alone."""
        return [group[key] if place is None else group[key][place] for group, key, place in self.places]

    @property
    def watches(self) -> str:
        """Say how many options there are."""
        rest = "options of optimizers that are no numbers, and which step counts are equal"
        return f"{rest} ({counted(len(self.fixed), 'option')})"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether numbers are numbers, the rest is as it was, and equal counts are equal."""
        for counts in self.counts:
            first = counts[0]._array.item()
            for count in counts:
                if count._array.item() != first:
                    return False
        for group, size in self._sizes:
            if len(group) != size:
                return False
        for group, key, place in self.places:
            value = group.get(key)
            if type(value) is not float and not (place is not None and type(value) is tuple and len(value) > place):
                return False
        for group, key, value in self.fixed:
            if group.get(key) is not value and not same(group.get(key), value):
                return False
        return self.counters.still_fit()

    def reason(self) -> str:
        """Name what is not as it was."""
        for group, size in self._sizes:
            if len(group) != size:
                return f"{self._name(group)} had {size} options and has {len(group)}"
        for group, key, place in self.places:
            value = group.get(key)
            if type(value) is not float and not (place is not None and type(value) is tuple and len(value) > place):
                return f"{self._name(group)}[{key!r}] was made of numbers and is {described(value)}"
        for group, key, value in self.fixed:
            if not same(group.get(key), value):
                return change(f"{self._name(group)}[{key!r}]", value, group.get(key))
        if not self.counters.still_fit():
            return f"{self.counters.other_kind()} is a number of another kind than it was"
        return "parameters that an optimizer had moved equally often have other step counts now"

    def _name(self, group: dict[str, Any]) -> str:
        return self._names[id(group)]

    def name_of(self, number: int) -> str:
        """Return what one of the numbers is."""
        if number < len(self.places):
            group, key, place = self.places[number]
            return f"{self._name(group)}[{key!r}]" + ("" if place is None else f"[{place}]")
        number -= len(self.places)
        if number < len(self.counts):
            return "the step count of an optimizer"
        number -= len(self.counts)
        return self.counters.name_of(number) if number < len(self.counters.places) else "a learning rate of a scheduler"

    def put(self, numbers: list[Any]) -> None:
        """Write numbers, or what stands for them, into the groups."""
        whole: dict[tuple[int, str], list[Any]] = {}
        for (group, key, place), number in zip(self.places, numbers):  # counts come behind
            if place is None:
                group[key] = number
            else:
                whole.setdefault((id(group), key), []).append(number)
                group[key] = tuple(whole[id(group), key])

    def as_counts(self, numbers: list[Any]) -> dict[int, Any]:
        """Return what stands for each count during a trace, by the id of its tensor."""
        behind = numbers[len(self.places) :]
        return {id(count): number for counts, number in zip(self.counts, behind) for count in counts}

    def after(self, numbers: list[Any], counted: dict[int, Any]) -> list[Any]:
        """Return the numbers that the next call will have unless an option changes meanwhile."""
        return numbers[: len(self.places)] + [counted[id(counts[0])] for counts in self.counts]

    def note_changes(self, given: list[Any], counted: dict[int, Any]) -> None:
        """Note after the step which numbers it changed."""
        for place, (before, now) in enumerate(zip(given[: len(self.places)], self.in_groups())):
            if now is not before:
                self.changes.append((place, of(now)))
        together: dict[int, tuple[Of, list[Any]]] = {}
        for counts, before in zip(self.counts, given[len(self.places) :]):
            for count in counts:
                now = counted[id(count)]
                if now is not before:
                    together.setdefault(id(now), (of(now), []))[1].append(count)
        self.counted = list(together.values())

    def change(self, numbers: list[float]) -> None:
        """Return what the step does to the numbers."""
        numbers = numbers + self.extra
        if self.changes:
            changed = self.in_groups()
            for place, follows in self.changes:
                changed[place] = follows(numbers)
            self.put(changed)
        for follows, counts in self.counted:
            now = follows(numbers)
            for count in counts:
                count._array.fill(now)


def _equal_counts(optimizers: list[Optimizer]) -> list[list[Any]]:
    """Return the step counts in optimizers' states, those of one value together."""
    found: dict[float, list[Any]] = {}
    for optimizer in optimizers:
        for state in optimizer.state.values():
            count = state.get("step") if isinstance(state, dict) else None
            if isinstance(count, TensorCore) and not count._array.ndim and count.device is cpu:
                if type(count._array) is DeviceArray:
                    count._array = count._array.on_host()
                found.setdefault(count._array.item(), []).append(count)
    return list(found.values())
