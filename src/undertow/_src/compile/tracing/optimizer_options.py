"""The numbers of optimizers, which are inputs of a program: options in parameter groups, and counts of steps.

Everything else in the groups is guarded. Step counts stay on the host, where PyTorch has them too: a count for each
parameter would be as many tiny operations of the program. Counts that are equal when the step is compiled are one number,
as long as they stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.guard import Check, Guard
from undertow._src.compile.guards.memory_words import EqualNumbers, Words, offset_of
from undertow._src.compile.guards.places import ABSENT, change, described, put, put_back, same
from undertow._src.compile.guards.variable_words import NUMBERS
from undertow._src.compile.tracing.counters import Counters
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.results import tensors_in, values_in
from undertow._src.compile.tracing.symbolic_scalars import Of, ScalarBecameConstant, SymbolicScalar, of
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import cpu
from undertow.optim.optimizer import Optimizer

_ARRAY = attrgetter("_array")
_REAL = (float, np.float64)


class Options(Guard):
    """The options of optimizers: which are numbers and so inputs; the others are guarded."""

    def __init__(self, optimizers: list[Optimizer], with_counts: bool, counters: Counters) -> None:
        self.counters = counters  # the user's numbers, which come last
        self.places: list[tuple[dict[str, Any], str, int | None]] = []
        self.fixed: list[tuple[dict[str, Any], str, Any]] = []
        self.left: list[
            tuple[dict[str, Any], str, Of | None]
        ] = []  # others that the step sets, and how; None: it deletes
        self.changes: list[tuple[int, Of]] = []  # numbers that the step changes, and how
        # Several optimizers may share their groups.
        groups = {id(group): group for optimizer in optimizers for group in optimizer.param_groups}.values()
        self._held = self._shown = [(group, dict(group)) for group in groups]
        self._sizes = [(group, len(group)) for group in groups]
        self._names = {
            id(group): f"{type(optimizer).__name__}.param_groups[{place}]"
            for optimizer in optimizers
            for place, group in enumerate(optimizer.param_groups)
        }
        for group in groups:
            for key, value in group.items():
                if type(value) in _REAL:
                    self.places.append((group, key, None))
                elif type(value) is tuple and value and all(type(part) in _REAL for part in value):
                    self.places += [(group, key, place) for place in range(len(value))]
                else:
                    self.fixed.append((group, key, value))
        self._kinds = [*map(type, self.in_groups())]
        self.counts = _equal_counts(optimizers) if with_counts else []
        self.extra: list[float] = []  # the groups as schedulers leave them in this call; see `lr_schedulers`
        self.counted: list[tuple[Of, list[Any]]] = []  # how the step changes counts, equal ones together

    def values(self) -> list[float]:
        """Return the numbers as they are now."""
        numbers = self.in_groups()
        if self.counts:
            numbers += [counts[0]._array.item() for counts in self.counts]
        return numbers + self.counters.values() if self.counters.places else numbers

    def in_groups(self) -> list[float]:
        """Return the numbers of the groups alone."""
        return [group[key] if place is None else group[key][place] for group, key, place in self.places]

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "optimizer options that are not numbers, and which step counts are equal"

    @property
    def number(self) -> int:
        """Return the number of options."""
        return len(self.fixed)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether numbers are still numbers, other options unchanged, and equal counts equal."""
        return self._have_equal_counts(self.counts) and self._have_sizes() and self._hold_options(self.fixed)

    def watch(self, words: Words) -> Check | None:
        """Watch options that are not numbers, and the memory of step counts, which are read in one pass."""
        fixed = [each for each in self.fixed if type(each[2]) in NUMBERS or not words.entry_of(*each)]
        for group, size in self._sizes:
            words.size_of(group, size)
        others = [counts for counts in self.counts if not _are_plain(counts)]
        plain = [(_watch_counts(words, counts), counts) for counts in self.counts if _are_plain(counts)]

        def hold(arguments: Sequence[Any]) -> bool:
            for equal, counts in plain:
                if not equal.hold() and not self._have_equal_counts([counts]):
                    return False
            return self._have_equal_counts(others) and self._hold_options(fixed)

        return hold

    def _have_equal_counts(self, groups: list[list[Any]]) -> bool:
        for counts in groups:
            first = counts[0]._array.item()
            for count in counts:
                if count._array.item() != first:
                    return False
        return True

    def _have_sizes(self) -> bool:
        return all(len(group) == size for group, size in self._sizes)

    def _hold_options(self, fixed: list[tuple[dict[str, Any], str, Any]]) -> bool:
        if self._other_kind() is not None:
            return False
        for group, key, value in fixed:
            if group.get(key) is not value and not same(group.get(key), value):
                return False
        return self.counters.still_fit()

    def _other_kind(self) -> tuple[dict[str, Any], str, type] | None:
        """Return an option whose kind of number has changed, and its earlier kind."""
        for (group, key, place), kind in zip(self.places, self._kinds):
            value = group.get(key)
            if place is not None:
                value = value[place] if type(value) is tuple and len(value) > place else None
            if type(value) is not kind:
                return group, key, kind
        return None

    def reason(self) -> str:
        """Return the change, in words."""
        for group, size in self._sizes:
            if len(group) != size:
                return f"{self._name(group)} had {size} options and has {len(group)}"
        if (other := self._other_kind()) is not None:
            group, key, kind = other
            return f"{self._name(group)}[{key!r}] was a {kind.__name__}, or several, and is {described(group.get(key))}"
        for group, key, value in self.fixed:
            if not same(group.get(key), value):
                return change(f"{self._name(group)}[{key!r}]", value, group.get(key))
        if not self.counters.still_fit():
            return f"{self.counters.other_kind()} is a number of another type than before"
        return "step counts of an optimizer that were equal differ now"

    def _name(self, group: dict[str, Any]) -> str:
        return self._names[id(group)]

    def name_of(self, number: int) -> str:
        """Return the name of one of the numbers."""
        if number < len(self.places):
            group, key, place = self.places[number]
            return f"{self._name(group)}[{key!r}]" + ("" if place is None else f"[{place}]")
        number -= len(self.places)
        if number < len(self.counts):
            return "the step count of an optimizer"
        number -= len(self.counts)
        if number < len(self.counters.places):
            return self.counters.name_of(number)
        return "a random number, or a learning rate of a scheduler,"

    def put(self, numbers: list[Any]) -> None:
        """Write numbers, or their stand-ins, into the groups."""
        whole: dict[tuple[int, str], list[Any]] = {}
        for (group, key, place), number in zip(self.places, numbers):  # counts come after
            if place is None:
                group[key] = number
            else:
                whole.setdefault((id(group), key), []).append(number)
                group[key] = tuple(whole[id(group), key])

    def changed_by_now(self, groups: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
        """Return the options of some groups that the step has changed so far."""
        given = {id(group): shown for group, shown in self._shown}
        return [
            (group, key)
            for group in groups
            for key in group
            if group[key] is not given.get(id(group), {}).get(key, ABSENT)
        ]

    def show(self) -> None:
        """Note the options as the step finds them."""
        self._shown = [(group, dict(group)) for group, _ in self._held]

    def restore(self) -> None:
        """Restore the groups to their state before the trace."""
        for group, held in self._held:
            put_back(group, held)

    def as_counts(self, numbers: list[Any]) -> dict[int, Any]:
        """Return the stand-in for each count during a trace, by the id of its tensor."""
        behind = numbers[len(self.places) :]
        return {id(count): number for counts, number in zip(self.counts, behind) for count in counts}

    def after(self, numbers: list[Any], counted: dict[int, Any]) -> list[Any]:
        """Return the numbers of the next call, unless an option changes in between."""
        return numbers[: len(self.places)] + [counted[id(counts[0])] for counts in self.counts]

    def note_changes(self, given: list[Any], counted: dict[int, Any]) -> None:
        """Note after the step which numbers it changed."""
        for place, (before, now) in enumerate(zip(given[: len(self.places)], self.in_groups())):
            if now is not before:
                self.changes.append((place, of(now)))
        numbers = {(id(group), key) for group, key, _ in self.places}
        for group, held in self._held:
            for key in {**held, **group}:
                after = group.get(key, ABSENT)
                if after is not held.get(key, ABSENT) and (id(group), key) not in numbers:
                    self._leave(group, key, after)
        together: dict[int, tuple[Of, list[Any]]] = {}
        for counts, before in zip(self.counts, given[len(self.places) :]):
            for count in counts:
                now = counted[id(count)]
                if now is not before:
                    together.setdefault(id(now), (of(now), []))[1].append(count)
        self.counted = list(together.values())

    def _leave(self, group: dict[str, Any], key: str, now: Any) -> None:
        """Note that the step leaves an option that is not one of the numbers."""
        if not isinstance(now, SymbolicScalar) and values_in(now, (), SymbolicScalar):
            raise ScalarBecameConstant
        if not all(map(running_trace().is_older, tensors_in(now))):
            raise CompileError(
                f"undertow.compile: the step sets {self._name(group)}[{key!r}] to a tensor that it makes, which no program "
                "can do. Keep tensors in the optimizer's state, `optimizer.state[parameter]`."
            )
        self.left.append((group, key, None if now is ABSENT else of(now)))

    def change(self, numbers: list[float]) -> None:
        """Change the numbers as the step does."""
        numbers = numbers + self.extra
        if self.changes:
            changed = self.in_groups()
            for place, follows in self.changes:
                changed[place] = follows(numbers)
            self.put(changed)
        for group, key, set_by in self.left:
            put(group, key, ABSENT if set_by is None else set_by(numbers))
        for follows, counts in self.counted:
            now = follows(numbers)
            for array in map(_ARRAY, counts):
                array.fill(now)


def _are_plain(counts: list[Any]) -> bool:
    """Return whether counts are in NumPy arrays of one dtype, in the memory of single words."""
    first = counts[0]._array
    return first.dtype.itemsize in (4, 8) and all(
        type(each._array) is np.ndarray and each._array.dtype is first.dtype and each._array.flags.aligned
        for each in counts
    )


def _watch_counts(words: Words, counts: list[Any]) -> EqualNumbers:
    offset = offset_of(TensorCore, "_array")
    for count in counts:
        words.slot(count, offset, words.keep(count._array))
    return EqualNumbers([words.data_of(count._array) for count in counts], counts[0]._array.dtype)


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
