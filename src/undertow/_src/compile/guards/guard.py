"""The interface of everything that a program depends on. A program has its guards in one list, which `explain` shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any


class Guard(ABC):
    """One thing that a program depends on, as it was when the program was made."""

    @property
    @abstractmethod
    def watches(self) -> str:
        """What is watched, in words."""

    @abstractmethod
    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether it is as it was, given the tensors of a call."""

    @abstractmethod
    def reason(self) -> str:
        """Return the sentence that says what changed, after `hold` returned False."""

    def is_internal(self) -> bool:
        """Return whether only private names changed: then another guard that fails explains more."""
        return False


def failure(guards: Iterable[Guard], arguments: Sequence[Any]) -> str:
    """Return why the first of some guards fails, one that explains more before others; empty if all hold."""
    internal = ""
    for guard in guards:
        if not guard.hold(arguments):
            if not guard.is_internal():
                return guard.reason()
            internal = internal or guard.reason()
    return internal


def counted(number: int, noun: str) -> str:
    """Return a number of things, in words."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
