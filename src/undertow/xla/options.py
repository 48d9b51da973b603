"""The numbers in optimizers' parameter groups, which are inputs of a program; everything else in them is watched."""

from __future__ import annotations

from typing import Any

from undertow.optim.optimizer import Optimizer
from undertow.xla.numbers import Of, of
from undertow.xla.state import PLAIN


class Options:
    """Where the numbers are, what else there is, and which of them the step itself changes."""

    def __init__(self, optimizers: list[Optimizer]) -> None:
        self.places: list[tuple[dict[str, Any], str, int | None]] = []
        self.fixed: list[tuple[dict[str, Any], str, Any]] = []
        self.changes: list[tuple[int, Of]] = []  # numbers that the step leaves otherwise, and how they follow
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for key, value in group.items():
                    if type(value) is float:
                        self.places.append((group, key, None))
                    elif type(value) is tuple and value and all(type(part) is float for part in value):
                        self.places += [(group, key, place) for place in range(len(value))]
                    elif isinstance(value, PLAIN):
                        self.fixed.append((group, key, value))

    def values(self) -> list[float]:
        """The numbers as they are now."""
        return [group[key] if place is None else group[key][place] for group, key, place in self.places]

    def still_fit(self) -> bool:
        """Whether the rest is as it was, and the numbers are numbers."""
        return all(group.get(key) == value for group, key, value in self.fixed)

    def put(self, numbers: list[Any]) -> None:
        """Writes numbers, or what stands for them, into the groups."""
        whole: dict[tuple[int, str], list[Any]] = {}
        for (group, key, place), number in zip(self.places, numbers, strict=True):
            if place is None:
                group[key] = number
            else:
                whole.setdefault((id(group), key), []).append(number)
                group[key] = tuple(whole[id(group), key])

    def note_changes(self, given: list[Any]) -> None:
        """After the step: which numbers are others than it was given."""
        for place, (before, now) in enumerate(zip(given, self.values())):
            if now is not before:
                self.changes.append((place, of(now)))

    def change(self) -> None:
        """What the step does to the numbers."""
        numbers = self.values()
        changed = list(numbers)
        for place, follows in self.changes:
            changed[place] = follows(numbers)
        self.put(changed)
