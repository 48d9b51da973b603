"""The log of a backward pass: a line for each node, while the logger `torch.autograd.graph` is at level DEBUG."""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.types.dtype_abbrs import dtype_abbrs

if TYPE_CHECKING:
    from undertow._src.engine.node import Edge, Node

log = logging.getLogger("torch.autograd.graph")


def log_nodes(roots: Sequence[Edge]) -> Callable[[], None]:
    """Log every node behind the roots when it runs; return a function that ends the logging."""

    def shown(gradient: Any) -> str:
        return "None" if gradient is None else f"{dtype_abbrs[gradient.dtype]}[{', '.join(map(str, gradient.shape))}]"

    def on(node: Node) -> Any:
        return node.register_prehook(
            lambda gradients: log.debug(
                "Executing: %s with grad_outputs: %s", node, f"[{','.join(map(shown, gradients))}]"
            )
        )

    handles = [on(node) for node in _nodes_behind(roots)]

    def end() -> None:
        for handle in handles:
            handle.remove()

    return end


def _nodes_behind(roots: Sequence[Edge]) -> Iterator[Node]:
    """Yield every node that gradients reach from the roots, nearest first."""
    waiting = collections.deque(node for node, _ in roots)
    seen: set[Node] = set()
    while waiting:
        node = waiting.popleft()
        if node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(before for before, _ in node.next_functions if before is not None)
