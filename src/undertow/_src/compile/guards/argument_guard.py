"""The guard on which arguments of a call are one tensor, share memory, or are tensors that the step reaches anyway.

What each argument looks like is not guarded: programs are found by it; see `Compiled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.tracing.arguments import Arguments, memory_of


class ArgumentGuard(Guard):
    """Guard which tensors that a call brings are the same ones."""

    def __init__(self, given: Arguments) -> None:
        self._given = given

    @property
    def watches(self) -> str:
        """Name what is compared."""
        return "which arguments are one tensor, or one that the step uses anyway"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the same arguments are the same tensors as when the program was made."""
        given = self._given
        if given.renewed.places:
            if given.aliases([*arguments, *given.renewed.tensors()]) != given.renewed_pattern:
                return False
        if not (arguments or given.pattern or given.shared):
            return True
        if given.aliases(arguments) != given.pattern:
            return False
        tensors = given.and_gradients(arguments) if given.shared else arguments
        for place, other in given.shared:
            if memory_of(tensors[place]) != memory_of(tensors[other] if type(other) is int else other):
                return False
        return True

    def reason(self) -> str:
        """Say what changed."""
        return "other arguments than before are one tensor, or one that the step uses anyway"
