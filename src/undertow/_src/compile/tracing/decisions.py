"""Decisions about values: `if torch.isfinite(loss):` in a step whose values are not known yet.

A trace follows one answer, which it guesses, and the value that was asked about becomes an output of the program. A call
whose values answer otherwise changes nothing: its results are thrown away, and the program for the other answer runs, or is
made. So each way through a step that calls take is a program of its own, and what a branch does is all that its code does:
optimizer steps, hooks, random draws, `return`, `continue`, what Python keeps.

Guesses that a trace can't verify (it fails behind them, or goes round a loop without end) are verified by running the part
of the program in front of them; so are others where that part is small, before all of the program is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import TraceAborted
from undertow._src.base.sites import Site
from undertow._src.compile.errors import CompileError

Line = tuple[str, int]  # a file, and a line of it

Answer = bool | int
Hints = dict[str, list[Answer]]

MOST = 256  # decisions in one trace
_SMALL = 64  # equations of a part that is run for the sake of guesses alone
_MOST_GUESSES = 16  # that are not verified on the way
_RARE = re.compile(r"\bis_?(nan|inf|neginf|posinf)\b")


class Mispredicted(Exception):
    """A program ran whose decisions are not those of the call; these are, as far as they are known.

    hints: by the place in the code, what would have been answered behind them: most likely so on the right way, too.
    """

    def __init__(self, answers: tuple[Answer, ...], hints: Hints) -> None:
        super().__init__()
        self.answers, self.hints = answers, hints


class Unverified(TraceAborted, Exception):
    """A trace has guessed so often that the guesses are to be verified before it goes on."""


def part_for(jaxpr: Any, wanted: Sequence[Any]) -> Any:
    """Return the part of a program that computes some of its values; None if that is large, or does something besides."""
    needed = {var for var in wanted if not isinstance(var, Literal)}
    equations: list[Any] = []
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            if equation.effects or len(equations) == _SMALL:
                return None
            equations.append(equation)
            needed.update(var for var in equation.invars if not isinstance(var, Literal))
    return jaxpr.replace(eqns=equations[::-1], outvars=[*wanted])


class Decisions:
    """The answers that a trace went on with, and the values that they are about."""

    def __init__(self, known: Sequence[Answer] = (), hints: Hints | None = None) -> None:
        self._hints = {where: list(answers) for where, answers in (hints or {}).items()}
        self.known = tuple(known)  # the first answers, which are those of the call that is traced
        self.asked: list[DeviceArray] = []
        self.answers: list[Answer | None] = []  # None: it can't be guessed
        self._sites: list[str] = []
        self._by_value: dict[int, Answer | None] = {}  # by the id of a value, which `_values` keeps
        self._values: list[Any] = []
        self.trusted = 0  # during a call: how many of the answers are known to be its own
        self.evaluating = False  # whether the part in front of guesses is being run

    def answer(self, value: Any, site: Site | None, guess: bool | None = None) -> bool:
        """Return what a trace goes on with where code asks whether a value is true."""
        return bool(self._answered(value, site, guess))

    def whole(self, value: Any, site: Site | None) -> int:
        """Return the whole number that a trace goes on with, where code wants to know one."""
        answer = self._answered(value, site, None, guesses=False)
        if answer is None:
            raise Unverified
        return int(answer)

    def _answered(self, value: Any, site: Site | None, guess: bool | None, guesses: bool = True) -> Answer | None:
        if id(value) not in self._by_value:
            place = len(self.answers)
            if place >= MOST:
                raise CompileError(
                    f"undertow.compile: at {site}, in `{site.source if site else ''}`, the step makes more than {MOST} "
                    "decisions about values in one call, and each way through them would be a program. Write them with "
                    "torch.where, or compile what is inside the loop."
                )
            if place >= len(self.known) + _MOST_GUESSES:
                raise Unverified
            here = "" if site is None else f"{site}, in `{site.source}`"
            again = [answer for where, answer in zip(self._sites, self.answers) if where == here]
            hints = self._hints.get(here)
            if guess is None:
                guess = bool(again[-1]) if again else not _RARE.search(here)
            if place < len(self.known):
                answer: Answer | None = self.known[place]
            else:
                answer = hints.pop(0) if hints else guess if guesses else None
            self._values.append(value)
            self._by_value[id(value)] = answer
            self.answers.append(answer)
            self._sites.append(here)
            single = jax.numpy.reshape(value, ())
            self.asked.append(DeviceArray(single != 0 if guesses else single.astype(np.int64)))
        return self._by_value[id(value)]

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def are_guessed(self) -> bool:
        """Whether some answers may not be those of the call that is traced."""
        return len(self.answers) > len(self.known)

    def verified(self, values: Iterable[Any], trusted: int = 0) -> tuple[list[Answer], Hints]:
        """Return the answers up to the first that the call's values answer otherwise, and that one as it is; and hints."""
        found: list[Any] = self.answers[:trusted]
        hints: Hints = {}
        for place, value in [*enumerate(values)][trusted:]:
            now = np.asarray(value).item()
            if found == self.answers[:place]:
                found.append(now)
            else:
                hints.setdefault(self._sites[place], []).append(now)
        return found, hints

    def as_hints(self) -> Hints:
        """Return the answers as they are guessed in another trace, where code asks at the same places."""
        hints: Hints = {}
        for site, answer in zip(self._sites, self.answers):
            if answer is not None:
                hints.setdefault(site, []).append(answer)
        return hints

    def listed(self) -> list[tuple[str, Answer | None]]:
        """Where code asks, and the answer that the program goes on with."""
        return list(zip(self._sites, self.answers))

    def difference(self, answers: Sequence[Answer]) -> str:
        """Describe the first of a call's answers that changed; "" if there is none."""
        for site, was, now in zip(self._sites, self.answers, answers):
            if now != was:
                return f"the decision about a value at {site} was {was} and is {now}"
        return ""

    def operands(self) -> list[Any]:
        """Return what a callback inside the program is given, to know whether its turn comes in this call."""
        return [array.value for array in self.asked]

    def hold(self, values: Sequence[Any]) -> bool:
        """Whether a callback's turn comes: all answers in front of it are the call's."""
        pairs = [*zip(values, self.answers)][self.trusted :]
        return not self.evaluating and all(np.asarray(value).item() == answer for value, answer in pairs)

    def finish(self) -> None:
        """Forget what only the trace needed."""
        self._by_value.clear()
        self._values.clear()

    def check(self, results: Sequence[Any]) -> None:
        """Raise unless a call's values answer as the program's code went on."""
        answers, hints = self.verified(results, self.trusted)
        if answers != self.answers:
            raise Mispredicted(tuple(answers), hints)
