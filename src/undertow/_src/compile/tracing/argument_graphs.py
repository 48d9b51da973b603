"""The graphs of arguments, which a program does not have: its stand-ins for arguments begin graphs of their own.

A backward pass in the step that runs to all leaves may not reach such an argument. One that runs to named inputs leaves it
out, unless its graph leads to one of them: that is checked in the call that is traced, and guarded in later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.compile.tracing.results import nodes_behind
from undertow._src.engine.node import AccumulateGrad


class ArgumentGraphs:
    """Facts about the graphs of arguments and of carried state."""

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        self._given = {
            id(stand_in): given for stand_in, given in pairs
        }  # the tensors of the call, until the end of the trace
        self.computed = {id(stand_in) for stand_in, given in pairs if given._edge is not None}
        self.untaken: list[
            tuple[int, list[Any]]
        ] = []  # arguments that lead to no target: their places, and the targets

    def note_targets(self, reached: Sequence[Any], targets: Sequence[Any], places: dict[int, int]) -> int | None:
        """Record a backward pass to some nodes. Return the place of an argument whose graph leads there."""
        wanted = [node.variable for node in targets if isinstance(node, AccumulateGrad)]  # others are the trace's
        given = [self._given.get(id(leaf), leaf) for leaf in wanted]
        for leaf in [node.variable for node in reached if isinstance(node, AccumulateGrad)]:
            if id(leaf) in self.computed:
                if leads_to(self._given[id(leaf)], given):
                    return places[id(leaf)]
                self.untaken.append((places[id(leaf)], [places.get(id(target), target) for target in wanted]))
        return None

    def finish(self) -> None:
        """Forget the tensors of the traced call."""
        self._given.clear()


def leads_to(tensor: Any, leaves: Sequence[Any]) -> bool:
    """Return whether a backward pass from a tensor reaches one of some leaves, or may do so."""
    nodes = [] if tensor._edge is None else nodes_behind([tensor._edge])
    ends = [node.variable for node in nodes if isinstance(node, AccumulateGrad)]
    return any(node._hides_inputs for node in nodes) or any(end is leaf for end in ends for leaf in leaves)
