"""The interface of everything that a program depends on. A program has its guards in one list, which `explain` shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from undertow._src.compile.guards.memory_words import AVAILABLE, Words

Check = Callable[[Sequence[Any]], bool]


class Guard(ABC):
    """One thing that a program depends on, as it was when the program was made."""

    @property
    @abstractmethod
    def watches(self) -> str:
        """The line for `explain`."""

    @property
    def number(self) -> int | None:
        """The number of watched things; None if they are not counted."""
        return None

    @abstractmethod
    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether nothing has changed, given the tensors of a call."""

    @abstractmethod
    def reason(self) -> str:
        """Return a sentence about the change, after `hold` returned False."""

    def watch(self, words: Words) -> Check | None:
        """Add memory words that show a change (see `words`); return the check for the rest, None if they show all.

        Called before `hold`: the words count if `hold` returns True afterwards.
        """
        return self.hold

    def is_internal(self) -> bool:
        """Return whether only private names changed: then another failing guard gives the better reason."""
        return False


class GuardList:
    """The guards of a program: asked one by one only if a word that they depend on has changed; see `memory_words`."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self.guards = guards
        self._words: Words | None = None  # from the last time that all guards were asked, and held
        self._rest: list[Check] = []  # checks of changes that these words do not show
        self._misses = 0  # the number of successive calls in which a word had changed

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether all of them hold for the tensors of a call."""
        if self._words is None or not self._words.unchanged():
            return self._ask_all(arguments)
        self._misses = 0
        for holds in self._rest:
            if not holds(arguments):
                return False
        return True

    def _ask_all(self, arguments: Sequence[Any]) -> bool:
        """Ask every guard, and collect their memory words again: less and less often if the words keep changing."""
        self._misses += 1
        words = Words() if AVAILABLE and self._misses & (self._misses - 1) == 0 else None
        rest = [guard.watch(words) for guard in self.guards] if words is not None else []
        for guard in self.guards:
            if not guard.hold(arguments):
                return False
        if words is not None:
            words.prepare()
            self._words, self._rest = words, [check for check in rest if check is not None]
        return True


def failure(guards: Iterable[Guard], arguments: Sequence[Any]) -> str:
    """Return the reason of the first guard that fails, preferring those that are not internal; empty if all hold."""
    internal = ""
    for guard in guards:
        if not guard.hold(arguments):
            if not guard.is_internal():
                return guard.reason()
            internal = internal or guard.reason()
    return internal
