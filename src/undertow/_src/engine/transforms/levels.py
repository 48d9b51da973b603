"""Derivatives inside derivatives: what `torch.func` and forward-mode AD are made of.

A level is one transform in progress, such as one call of `grad(f)(x)`. Its inputs are aliases of the caller's tensors
that start a separate graph (`LevelInput` nodes), connected to the caller's graph if there is one. What leaves the level
stays in the graph only if it depends on something outside: a leaf that requires gradients, or an input of a level that
is still in progress.

What a function differentiated in forward mode computes is recorded, but to the program it does not require gradients
(`hides`), and no hook of the program sees it.

NOTE pushing forward. The engine only runs backward, but a vector-Jacobian product is linear in its vector u, so
differentiating it with respect to u gives the Jacobian-vector product: two backward passes, the first one recorded.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.base.modes import local
from undertow._src.engine.differentiate import GradientEdge, batched_grad, grad, silent_grad
from undertow._src.engine.node import AccumulateGrad, Edge, Node, edge_of
from undertow._src.engine.views import refresh_view
from undertow._src.rules.rule import Spec
from undertow._src.tensor import creation
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace


class LevelInput(Node):
    """The entry of a level's input into its graph; the gradient flows on to the caller's graph."""

    __slots__ = ("level",)

    def __init__(self, edge: Edge | None, level: Level) -> None:
        self._edges = (edge,)
        self._order = next(local.modes.sequence)
        self._extras = self._tensor_hooks = None
        self.level = level

    def _run(self, xp: Namespace, g: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        return (g,)

    @property
    def _begins(self) -> bool:  # type: ignore[override]
        return type(self.level) is Level and self.level.open

    def _node_name(self) -> str:
        return "ViewBackward0"  # PyTorch's counterpart, where there is one


LevelInput.__name__ = LevelInput.__qualname__ = "ViewBackward0"  # as it is printed

order_of_levels = itertools.count()


class Level:
    """One transform in progress. `tracked`: whether gradients were recorded when it began."""

    __slots__ = ("number", "open", "tracked")

    def __init__(self) -> None:
        self.number = next(order_of_levels)
        self.open = True
        self.tracked = local.modes.grad_enabled

    def close(self) -> None:
        self.open = False

    def begin(self, tensor: TensorCore) -> TensorCore:
        """Return an alias of a tensor that this level differentiates with respect to."""
        if not DTYPE_OF[tensor._array.dtype].is_inexact:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if tensor._view is not None:
            refresh_view(tensor)
        alias = wrap(tensor._array)
        alias._storage = tensor._get_storage()
        outer = (tensor._edge or edge_of(tensor)) if tensor._requires_grad and self.tracked else None
        alias._edge = (LevelInput(outer, self), 0)
        alias._requires_grad = True
        return alias

    def reaches_outside(self, tensors: Sequence[Any]) -> bool:
        """Whether a graph leads to anything but this level's own inputs and those of closed levels."""
        if not self.tracked:
            return False
        if any(tensor._edge is None and tensor._requires_grad for tensor in tensors):
            return True
        starts = [tensor._edge[0] for tensor in tensors if tensor._edge is not None]
        return any(map(self.is_outside, self.behind(starts)))

    def behind(self, starts: Sequence[Node]) -> Iterator[Node]:
        """Return the nodes that the program's own gradients would reach from given nodes."""
        return nodes_behind(starts)

    def is_outside(self, node: Node) -> bool:
        """Whether gradients end here, at something that is not this level's."""
        return isinstance(node, AccumulateGrad) or (
            type(node) is LevelInput and node.level is not self and node.level.open
        )

    def hides(self, node: Node) -> bool:
        """Whether a node was made only because its output depends on this level's inputs."""
        return not self.tracked or not any(map(self.is_outside, self.behind([node])))

    def release(self, tensor: TensorCore) -> TensorCore:
        """Return a tensor as it leaves the level."""
        if not isinstance(tensor, TensorCore) or not tensor._requires_grad:
            return tensor
        return tensor if self.reaches_outside((tensor,)) else tensor.detach()


class PushLevel(Level):
    """A level of a function differentiated in forward mode, from its start until it is closed.

    `wraps`: as in `torch.func`, what depends on its inputs does not show that others require gradients.
    """

    __slots__ = ("outer", "wraps")

    def __init__(self, wraps: bool = True) -> None:
        super().__init__()
        self.wraps = wraps
        self.outer = local.modes.pushing
        local.modes.pushing = self

    def close(self) -> None:
        local.modes.pushing = self.outer
        super().close()

    def hides(self, start: Node) -> bool:
        """Whether the innermost level that a node belongs to is a forward-mode one."""
        if not self.wraps:
            return super().hides(start)
        inputs = [node for node in nodes_behind([start]) if type(node) is LevelInput and node.level.open]
        return bool(inputs) and isinstance(
            max([node.level for node in inputs], key=lambda level: level.number), PushLevel
        )


def nodes_behind(starts: Sequence[Node], but: Collection[Node] = ()) -> Iterator[Node]:
    """Yield nodes, and every node that they lead to, stopping at given ones."""
    stack = [node for node in starts if node not in but]
    seen = {*stack, *but}
    while stack:
        node = stack.pop()
        yield node
        for edge in node._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])


def input_edge(alias: TensorCore) -> GradientEdge:
    """Return the edge at which the gradient of a level's input arrives, whatever is written to the input later."""
    node, number = alias._edge
    return GradientEdge(node, number, Spec(alias._array.shape, alias._array.dtype))


def pull(
    level: Level, outputs: Sequence[Any], inputs: Sequence[GradientEdge], cotangents: Sequence[Any],
    retain: bool = True, recorded: bool | None = None, batched: bool = False,
) -> list[Any]:  # fmt: skip
    """Return vector-Jacobian products: one gradient per input, zeros where an output does not depend on it.

    `batched`: for many cotangents at once, which are the first dim of those given and of the results.
    """
    lead = tuple(cotangents[0].shape[:1]) if batched else ()
    live = [(out, seed) for out, seed in zip(outputs, cotangents, strict=True) if requires_grad(out)]
    if not live or not inputs or 0 in lead:
        return [_zeros(edge, lead) for edge in inputs]
    outs, seeds = zip(*live, strict=True)
    if recorded is None:
        recorded = level.reaches_outside([*outs, *[seed for seed in seeds if seed is not None]])
    if batched:
        found = batched_grad(outs, inputs, seeds, retain, recorded)
    else:
        found = grad(outs, inputs, seeds, retain_graph=retain, create_graph=recorded, allow_unused=True)
    return [_zeros(edge, lead) if one is None else one for one, edge in zip(found, inputs, strict=True)]


class Pushed:
    """The derivative of outputs with respect to a level's inputs, as a function of tangents."""

    def __init__(self, level: Level, outputs: Sequence[Any], inputs: Sequence[GradientEdge]) -> None:
        self.level, self.outputs = level, outputs
        self.dummies = [
            level.begin(creation.zeros_like(out.detach())) if requires_grad(out) else None for out in outputs
        ]
        used = [dummy for dummy in self.dummies if dummy is not None]
        self.slopes: list[Any] = [None] * len(inputs)
        if used and inputs:
            live = [out for out in outputs if requires_grad(out)]
            self.slopes = silent_grad(live, inputs, used, create_graph=True)

    def along(self, tangents: Sequence[Any], batched: bool = False) -> list[Any]:
        """Return Jacobian-vector products, one per output, for one tangent per input.

        `batched`: for many tangents at once, which are the first dim of those given and of the results.
        """
        live = [(slope, tangent) for slope, tangent in zip(self.slopes, tangents, strict=True) if requires_grad(slope)]
        used = [input_edge(dummy) for dummy in self.dummies if dummy is not None]
        found: list[Any] = [None] * len(used)
        lead = tuple(tangents[0].shape[:1]) if batched else ()
        if live and used and 0 not in lead:
            slopes, seeds = zip(*live, strict=True)
            recorded = self.level.reaches_outside([*slopes, *seeds])
            found = silent_grad(slopes, used, seeds, recorded, batched)
        pushed = iter(found)
        results = [None if dummy is None else next(pushed) for dummy in self.dummies]
        return [
            creation.zeros((*lead, *out.shape), dtype=out.dtype, device=out.device) if result is None else result
            for out, result in zip(self.outputs, results, strict=True)
        ]


def requires_grad(tensor: TensorCore | None) -> bool:
    """Whether a tensor (or None) is in a graph, as of its latest write."""
    if tensor is None:
        return False
    if tensor._view is not None:
        refresh_view(tensor)
    return tensor._requires_grad


def _zeros(edge: GradientEdge, lead: tuple[int, ...] = ()) -> Any:
    spec = edge.ownership_token
    return creation.zeros((*lead, *spec.shape), dtype=DTYPE_OF[spec.dtype])
