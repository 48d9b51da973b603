"""The guard on numbers that are inputs of a program: what the step asked of them must have the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.compile.guards.guard import Guard, counted
from undertow._src.compile.guards.places import change
from undertow._src.compile.tracing.options import Options
from undertow._src.compile.tracing.schedules import Schedules
from undertow._src.compile.tracing.symbolic_scalars import ScalarGuards


class AnswerGuard(Guard):
    """Guard the answers to what the step asks of an optimizer's options, and of the step's own numbers."""

    def __init__(self, asked: ScalarGuards, options: Options, schedules: Schedules) -> None:
        self._asked, self._options, self._schedules = asked, options, schedules
        self._seen = options.values()

    @property
    def watches(self) -> str:
        """Say how many questions there are."""
        return f"answers about numbers that are inputs ({counted(len(self._asked), 'question')})"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the numbers, as the schedulers leave them during the call, give the same answers."""
        if self._schedules.made:
            return self._schedules.fit(self._asked)
        self._seen = self._options.values()
        return self._asked.hold(self._seen)

    def numbers(self) -> list[float]:
        """Return the numbers that `hold` has just seen, unless a scheduler stepped meanwhile."""
        return self._options.values() if self._schedules.made else self._seen

    def reason(self) -> str:
        """Name a number about which another answer is given."""
        if self._schedules.made:
            self._schedules.prepare()
        now = self._options.values() + self._options.extra
        self._schedules.rewind()
        number = self._asked.failed_guard(now)
        if number is None:
            return "numbers of an optimizer's or of the step's own changed in a way that the step asks about"
        before = self._asked.good[number]
        return f"{change(self._options.name_of(number), before, now[number])}, and the step asks about it"
