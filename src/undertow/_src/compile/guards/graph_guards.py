"""Graphs that were there before a step, and that it may differentiate: behind tensors which it reaches and did not make.

A program goes back through such a graph as it was when the step was traced. Nodes of a graph stay as they are, but hooks
come and go, and a tensor that is written to stands at the end of another graph afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.guard import Guard, counted
from undertow._src.compile.tracing.results import nodes_behind
from undertow._src.engine.node import Node


class GraphGuard(Guard):
    """Guard where tensors stand in graphs, and the hooks on those."""

    def __init__(self, tensors: list[Any]) -> None:
        computed = [tensor for tensor in tensors if tensor._edge is not None]
        # Views are left out: their place in the graph is recomputed after each write to their base.
        self._edges = [(tensor, tensor._edge) for tensor in computed if tensor._view is None]
        self._hooks = [(node, _hooks_on(node)) for node in nodes_behind([tensor._edge for tensor in computed])]

    @property
    def watches(self) -> str:
        """Say how large the graphs are."""
        return f"graphs that were there before, and the hooks on them ({counted(len(self._hooks), 'node')})"

    def is_empty(self) -> bool:
        """Return whether there are no such graphs."""
        return not (self._edges or self._hooks)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether all is as it was."""
        return not self.reason()

    def reason(self) -> str:
        """Name what is not as it was; nothing if all is."""
        for tensor, edge in self._edges:
            if tensor._edge is not edge:
                return f"a tensor of shape {list(tensor.shape)} that was computed outside the step was computed anew"
        for node, hooks in self._hooks:
            now = _hooks_on(node)
            if len(now) != len(hooks) or not all(map(is_, now, hooks)):
                return f"the hooks on {node._node_name()}, which was made outside the step, changed"
        return ""

    def refuse_changes(self) -> None:
        """Refuse writes to such a tensor: each call would make its graph longer, and a program makes none."""
        for tensor, edge in self._edges:
            if tensor._edge is not edge:
                raise CompileError(
                    f"undertow.compile: the step writes to a tensor of shape {list(tensor.shape)} that was computed "
                    "outside of it, with a graph: each call would add to that. Write to a clone(), keep it with detach(), "
                    "or compile what computes it as well."
                )


def _hooks_on(node: Node) -> list[Any]:
    """Return what is registered on a node: hooks on its results, its own hooks, and what retains gradients."""
    found = [hook for own in node._hooked_outputs().values() for hook in (own or {}).values()]
    extras = node._extras
    if extras is not None:
        found += [hook for own in (extras.pre_hooks, extras.post_hooks) for hook in (own or {}).values()]
        found += extras.retained.values()
    return found
