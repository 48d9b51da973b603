"""What PyTorch's compiled engine tells of the backward pass at work, and of tensors as it sees them."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from undertow._src.base.modes import local
from undertow._src.engine.engine import count_dependencies
from undertow._src.engine.node import AccumulateGrad, Node
from undertow._src.engine.views import replaying
from undertow._src.tensor.core import TensorCore
from undertow.autograd.grad_mode import _Switches
from undertow.autograd.graph import increment_version
from undertow.storage import root_of


def _current_graph_task_id() -> int:
    """Return the number of the backward pass at work; -1 if there is none."""
    task = local.modes.backward_pass
    return -1 if task is None else task.number


def _current_autograd_node() -> Node | None:
    """Return the node whose hooks are running."""
    task = local.modes.backward_pass
    return None if task is None else task.running


def _will_engine_execute_node(node: Any) -> bool:
    """Whether the backward pass at work comes to a node. One that it began at alone does not count."""
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    task = local.modes.backward_pass
    if task is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    if task.executed is None:
        return task.reaches(node)
    if isinstance(node, AccumulateGrad) and not task.accumulates and node in task.captures:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(): whether it "
            "is captured there is not told."
        )
    return (node in task.executed or node in task.captures) and node is not task.lone_root


def _current_graph_task_execution_order() -> list[Node]:
    """Return the nodes of the backward pass at work in the order in which it runs them."""
    task = local.modes.backward_pass
    if task is None:
        raise RuntimeError("_current_graph_task_execution_order should only be called during the backward pass")
    if _Switches.multithreading:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed with multithreading "
            "disabled: call it in a torch.autograd.set_multithreading_enabled(False) block."
        )
    waiting, _ = count_dependencies(task.roots, want_parents=False)
    ready = [(-node._order, node) for node in dict.fromkeys([root for root, _ in task.roots]) if not waiting[node]]
    heapify(ready)
    order = []
    while ready:
        node = heappop(ready)[1]
        if task.executed is not None and node not in task.executed:
            continue
        order.append(node)
        for edge in node._edges:
            if edge is not None:
                left = waiting[edge[0]] = waiting.get(edge[0], 1) - 1
                if not left:
                    heappush(ready, (-edge[0]._order, edge[0]))
    return order


def _get_current_graph_task_keep_graph() -> bool:
    """Whether the backward pass at work keeps what its nodes saved; True if there is none."""
    task = local.modes.backward_pass
    return task is None or task.freed is None


# --- tensors


class CreationMeta(enum.Enum):
    """Why gradients refuse writes to a view."""

    DEFAULT, IN_CUSTOM_FUNCTION, MULTI_OUTPUT_NODE, NO_GRAD_MODE, INFERENCE_MODE = range(5)

    def __str__(self) -> str:
        return f"CreationMeta.{self.name}"


_ORIGINS = {
    None: CreationMeta.DEFAULT, "function": CreationMeta.IN_CUSTOM_FUNCTION, "multi_output": CreationMeta.MULTI_OUTPUT_NODE,
    "no_grad": CreationMeta.NO_GRAD_MODE, "inference": CreationMeta.INFERENCE_MODE,
}  # fmt: skip


def _get_creation_meta(tensor: Any) -> CreationMeta:
    """How a view was made."""
    if tensor._view is None:
        raise RuntimeError("Expected meta != nullptr to be true, but got false.")
    return _ORIGINS[tensor._view.origin]


def _set_creation_meta(tensor: Any, made: CreationMeta) -> None:
    """Mark a view as created in a given way."""
    if tensor._view is None:
        raise RuntimeError("Expected meta != nullptr to be true, but got false.")
    tensor._view.origin = next(origin for origin, kind in _ORIGINS.items() if kind is made)


def _get_sequence_nr() -> int:
    """Return the number that the next node will get."""
    number = next(local.modes.sequence)
    local.modes.sequence = itertools.count(number)  # the next node is to get it, too
    return number


def _top_saved_tensors_default_hooks(ignore_is_tracing: bool) -> tuple[Any, Any] | None:
    """Return the hooks in force for saved tensors."""
    active = local.modes.saved_hooks
    return active[-1][:2] if active and local.modes.saved_hooks_disabled is None else None


def _is_alias_of(one: Any, other: Any) -> bool:
    """Whether two tensors share their memory."""
    return root_of(one._array) is root_of(other._array)


def _has_storage(tensor: Any) -> bool:
    """Whether a tensor has memory."""
    return tensor._is_strided and not tensor.is_meta


def _increment_version(tensors: TensorCore | Sequence[TensorCore]) -> None:
    """Count a write."""
    increment_version(tensors)


def _set_multithreading_enabled(enabled: bool) -> None:
    """Return what `torch.autograd.set_multithreading_enabled` says."""
    _Switches.multithreading = enabled


def _set_view_replay_enabled(enabled: bool) -> None:
    """Return what `torch.autograd._force_original_view_tracking` says."""
    _Switches.view_replay = replaying.on = enabled


_fallback = ["warn"]


def _get_autograd_fallback_mode() -> str:
    """Return what happens at an operator without a gradient: here it always has one or refuses."""
    return _fallback[0]


def _set_autograd_fallback_mode(mode: str) -> None:
    if mode not in ("nothing", "warn", "error"):
        raise RuntimeError(f"the autograd fallback mode is 'nothing', 'warn' or 'error', got {mode!r}")
    _fallback[0] = mode
