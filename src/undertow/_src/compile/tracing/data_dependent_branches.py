"""Branches on values: `if torch.isfinite(loss):` in a step whose values are not known yet.

A trace guesses the outcome and follows that branch, and the value becomes an output of the program. If the outcome is
different in a call, the call's results are discarded, and the program for the other branch runs; it is made when it is
first needed. So each path that calls take is a separate program, with all that its code does: optimizer steps, hooks,
random draws, `return`, `continue`, changes of Python objects.

If a trace fails after a guess, or loops without end, its guesses are verified by running the part of the program before
them. Guesses are also verified if that part is small, before the whole program is compiled.
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
_SMALL = 64  # most equations of a part that is run only to verify guesses
_MOST_GUESSES = 16  # guesses after which a trace is verified
_RARE = re.compile(r"\bis_?(nan|inf|neginf|posinf)\b")


class Mispredicted(Exception):
    """A program ran whose guesses were wrong for the call. `answers` are the call's outcomes, as far as they are known.

    hints: later outcomes, by the place in the code: most likely the same on the right path.
    """

    def __init__(self, answers: tuple[Answer, ...], hints: Hints) -> None:
        super().__init__()
        self.answers, self.hints = answers, hints


class RunAgain(Exception):
    """Another rank's guesses were wrong for the call: this rank repeats it, too."""


class Unverified(TraceAborted, Exception):
    """A trace has reached the number of guesses after which they are verified."""


def part_for(jaxpr: Any, wanted: Sequence[Any]) -> Any:
    """Return the part of a program that computes some of its values; None if it is large, has effects or communicates."""
    needed = {var for var in wanted if not isinstance(var, Literal)}
    equations: list[Any] = []
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            communicates = equation.primitive.name.startswith("undertow_")
            if equation.effects or communicates or len(equations) == _SMALL:
                return None
            equations.append(equation)
            needed.update(var for var in equation.invars if not isinstance(var, Literal))
    return jaxpr.replace(eqns=equations[::-1], outvars=[*wanted])


class Decisions:
    """The outcomes that a trace has guessed, and the values that they depend on."""

    def __init__(self, known: Sequence[Answer] = (), hints: Hints | None = None) -> None:
        self._hints = {where: list(answers) for where, answers in (hints or {}).items()}
        self.known = tuple(known)  # the first outcomes, which are known for the traced call
        self._hinted: set[int] = set()  # places of outcomes that hints gave
        self.asked: list[DeviceArray] = []
        self.answers: list[Answer | None] = []  # None: it can't be guessed
        self._sites: list[str] = []
        self._by_value: dict[int, Answer | None] = {}  # by the id of a value, which `_values` keeps
        self._values: list[Any] = []
        self.trusted = 0  # during a call: the number of outcomes that are known to be right
        self.evaluating = False  # whether the part before guesses is being run
        self.branches: Any = None  # of a hook that is being traced; see `hook_branches`

    def answer(self, value: Any, site: Site | None, guess: bool | None = None) -> bool:
        """Return whether a value is true, as the trace assumes."""
        return bool(self._answered(value, site, guess))

    def whole(self, value: Any, site: Site | None) -> int:
        """Return the integer that the trace assumes for code that needs one."""
        answer = self._answered(value, site, None, guesses=False)
        if answer is None:
            raise Unverified
        return int(answer)

    def _answered(self, value: Any, site: Site | None, guess: bool | None, guesses: bool = True) -> Answer | None:
        if id(value) not in self._by_value:
            place = len(self.answers)
            if place >= MOST:
                raise CompileError(
                    f"undertow.compile: at {site}, in `{site.source if site else ''}`, the step branches on values more "
                    f"than {MOST} times in one call, and each path through them would need a program. Use torch.where "
                    "instead, or compile only the body of the loop."
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
                if hints:
                    self._hinted.add(place)
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
        """Return whether some outcomes are guesses."""
        return len(self.answers) > len(self.known)

    def verified(self, values: Iterable[Any], trusted: int = 0) -> tuple[list[Answer], Hints]:
        """Return the outcomes up to the first wrong one, which is corrected, and hints for the others."""
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
        """Return the outcomes as hints for another trace, by the places in the code."""
        hints: Hints = {}
        for site, answer in zip(self._sites, self.answers):
            if answer is not None:
                hints.setdefault(site, []).append(answer)
        return hints

    def inverted(self, first: bool) -> Hints | None:
        """Return hints for a trace that takes the other way at the first or last guess that no hint gave."""
        unknown = range(len(self.known), len(self.answers))
        places = [n for n in unknown if n not in self._hinted and isinstance(self.answers[n], bool)]
        if not places:
            return None
        place = places[0 if first else -1]
        hints: Hints = {}
        for number in range(len(self.known), place + 1):
            answer = self.answers[number]
            if answer is not None:
                hints.setdefault(self._sites[number], []).append(answer if number < place else not answer)
        return hints

    def listed(self) -> list[tuple[str, Answer | None]]:
        """Return the places of the branches, with the outcomes that the program assumes."""
        return list(zip(self._sites, self.answers))

    def difference(self, answers: Sequence[Answer]) -> str:
        """Describe the first of a call's outcomes that changed; "" if there is none."""
        for site, was, now in zip(self._sites, self.answers, answers):
            if now != was:
                return f"the decision about a value at {site} was {was} and is {now}"
        return ""

    def operands(self) -> list[Any]:
        """Return the values that decide whether a callback inside the program runs in a call."""
        return [array.value for array in self.asked]

    def hold(self, values: Sequence[Any]) -> bool:
        """Return whether a callback runs in this call: whether all outcomes before it are right."""
        pairs = [*zip(values, self.answers)][self.trusted :]
        return not self.evaluating and all(np.asarray(value).item() == answer for value, answer in pairs)

    def finish(self) -> None:
        """Forget everything that only the trace needed."""
        self._by_value.clear()
        self._values.clear()

    def check(self, results: Sequence[Any]) -> None:
        """Raise Mispredicted unless a call's values have the program's outcomes."""
        answers, hints = self.verified(results, self.trusted)
        if answers != self.answers:
            raise Mispredicted(tuple(answers), hints)
