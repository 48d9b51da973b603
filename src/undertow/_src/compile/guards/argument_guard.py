"""The guard on arguments that are the same tensor, share memory, or are tensors that the step reaches anyway.

Shapes, dtypes and the like are not guarded here: `Compiled` looks programs up by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.tracing.argument_graphs import leads_to
from undertow._src.compile.tracing.arguments import Arguments, memory_of


class ArgumentGuard(Guard):
    """Guard which tensors of a call are the same object."""

    def __init__(self, given: Arguments) -> None:
        self._given = given

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "which arguments are the same tensor, or one that the step uses anyway"

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
        """Return what changed, in words."""
        return "other arguments than before are the same tensor, or one that the step uses anyway"


class WayGuard(Guard):
    """Guard that no argument was computed from the targets of a backward pass in the step."""

    def __init__(self, given: Arguments) -> None:
        self._given = given

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "the leaves that graphs of arguments lead to"

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether none of the graphs leads to the targets."""
        tensors = self._given.and_gradients(arguments)
        for place, targets in self._given.graphs.untaken:
            if leads_to(tensors[place], [tensors[each] if type(each) is int else each for each in targets]):
                return False
        return True

    def reason(self) -> str:
        """Return what changed, in words."""
        return "an argument was computed from a tensor whose gradient a backward pass in the step computes"
