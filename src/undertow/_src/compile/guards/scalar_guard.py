"""The guard on numbers that are inputs of a program: comparisons that the step made must have the same outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.places import change
from undertow._src.compile.tracing.lr_schedulers import Schedules
from undertow._src.compile.tracing.optimizer_options import Options
from undertow._src.compile.tracing.symbolic_scalars import ScalarGuards


class AnswerGuard(Guard):
    """Guard the outcome of each comparison with an optimizer's option or a counter."""

    def __init__(self, asked: ScalarGuards, options: Options, schedules: Schedules) -> None:
        self._asked, self._options, self._schedules = asked, options, schedules
        self._seen = options.values()

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "outcomes of comparisons with numbers that are inputs"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._asked)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the numbers, after the schedulers' steps in this call, have the same outcomes."""
        if self._schedules.made:
            return self._schedules.fit(self._asked)
        self._seen = self._options.values()
        return self._asked.hold(self._seen)

    def numbers(self) -> list[float]:
        """Return the numbers that `hold` has just read, unless a scheduler has stepped since."""
        return self._options.values() if self._schedules.made else self._seen

    def reason(self) -> str:
        """Return a number with a different outcome, in words."""
        if self._schedules.made:
            self._schedules.prepare()
        now = self._options.values() + self._options.extra
        self._schedules.rewind()
        number = self._asked.failed_guard(now)
        if number is None:
            return "numbers of an optimizer or of the step changed, and a comparison in the step comes out differently"
        before = self._asked.good[number]
        changed = change(self._options.name_of(number), before, now[number])
        return f"{changed}, and a comparison in the step comes out differently"
