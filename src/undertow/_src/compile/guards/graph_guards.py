"""The guard on graphs from before the step, which it may differentiate: those of tensors that it did not compute.

A program differentiates such a graph as it was when the step was traced. Nodes never change, but hooks are added and
removed, and a tensor that is written to gets a new node.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.tracing.results import nodes_behind
from undertow._src.engine.node import Node


class GraphGuard(Guard):
    """Guard the nodes of tensors, and the hooks on their graphs."""

    def __init__(self, tensors: list[Any]) -> None:
        computed = [tensor for tensor in tensors if tensor._edge is not None]
        # Without views: their place in the graph is recomputed after each write to their base.
        self._edges = [(tensor, tensor._edge) for tensor in computed if tensor._view is None]
        self._hooks = [(node, _hooks_on(node)) for node in nodes_behind([tensor._edge for tensor in computed])]

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "nodes of graphs from before the step, and their hooks"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._hooks)

    def is_empty(self) -> bool:
        """Return whether there are no such graphs."""
        return not (self._edges or self._hooks)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether nothing has changed."""
        return not self.reason()

    def reason(self) -> str:
        """Return what changed, in words; empty if nothing did."""
        for tensor, edge in self._edges:
            if tensor._edge is not edge:
                return f"a tensor of shape {list(tensor.shape)} that was computed outside the step was computed again"
        for node, hooks in self._hooks:
            now = _hooks_on(node)
            if len(now) != len(hooks) or not all(map(is_, now, hooks)):
                return f"the hooks on {node._node_name()}, which was made outside the step, changed"
        return ""

    def refuse_changes(self) -> None:
        """Refuse writes to such a tensor: in eager mode each call makes its graph longer, but a program makes no graph."""
        for tensor, edge in self._edges:
            if tensor._edge is not edge:
                raise CompileError(
                    f"undertow.compile: the step writes to a tensor of shape {list(tensor.shape)} that was computed "
                    "outside of it and has a graph, to which each call would add. Write to a clone(), detach() it "
                    "before, or compute it inside the step."
                )


def _hooks_on(node: Node) -> list[Any]:
    """Return the hooks on a node and on its results, and the results that retain gradients."""
    found = [hook for own in node._hooked_outputs().values() for hook in (own or {}).values()]
    extras = node._extras
    if extras is not None:
        found += [hook for own in (extras.pre_hooks, extras.post_hooks) for hook in (own or {}).values()]
        found += extras.retained.values()
    return found
