"""How many references the engine itself has to a gradient that reaches a leaf: see NOTE ownership of gradients.

The number depends on the interpreter, so it is measured once, when undertow is imported: passes run over a node that
keeps holding what it returns, until a count is found at which such a gradient is taken over wrongly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.engine.backward_hooks import set_own_references
from undertow._src.engine.engine import BackwardPass, count_dependencies, run_pass
from undertow._src.engine.node import Node, edge_of
from undertow._src.tensor.core import wrap

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace
    from undertow._src.tensor.core import TensorCore


class _Holder(Node):
    """A node that keeps one reference to what it returns."""

    __slots__ = ("held",)

    def __init__(self, leaf: TensorCore) -> None:
        self._edges, self._order = (edge_of(leaf),), 0
        self._extras = self._tensor_hooks = None
        self.held = np.zeros(2)

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        return (self.held,)


def _takes_what_others_hold(aimed: bool) -> bool:
    """Whether a leaf takes over a gradient that is held elsewhere, on the loop's short path or on the one with hooks."""
    leaf = wrap(np.zeros(2))
    leaf._requires_grad = True
    node = _Holder(leaf)
    task = BackwardPass(keep_graph=True, create_graph=False)
    waiting, _ = count_dependencies([(node, 0)], False)
    if aimed:
        task.executed = set(waiting)
    run_pass(task, [(node, 0)], [np.zeros(2)], waiting)
    return leaf._meta.grad._array is node.held


def find_out() -> None:
    """Set the highest count at which neither path takes over a gradient held elsewhere; 0 copies all."""
    for count in range(1, 12):
        set_own_references(count)
        if _takes_what_others_hold(aimed=False) or _takes_what_others_hold(aimed=True):
            set_own_references(count - 1)
            return
    set_own_references(0)
