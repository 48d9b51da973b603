"""`torch._C._autograd`: what PyTorch's Python code uses of its compiled autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._C._engine import CreationMeta as CreationMeta
from undertow._C._engine import _get_creation_meta as _get_creation_meta
from undertow._C._engine import _get_current_graph_task_keep_graph as _get_current_graph_task_keep_graph
from undertow._C._engine import _get_sequence_nr as _get_sequence_nr
from undertow._C._engine import _set_creation_meta as _set_creation_meta
from undertow._C._engine import _top_saved_tensors_default_hooks as _top_saved_tensors_default_hooks
from undertow._src.base.modes import local
from undertow._src.engine.profiling.kinds import ActiveProfilerType
from undertow._src.engine.profiling.kinds import DeviceType as DeviceType
from undertow._src.engine.saved import SavedTensor as SavedTensor
from undertow.autograd.graph import saved_tensors_hooks
from undertow.autograd.profiler import _recording
from undertow.autograd.profiler import _supported_activities as _supported_activities
from undertow.autograd.profiler import is_recording as _profiler_enabled
from undertow.autograd.profiler import kineto_available as kineto_available

__all__ = [
    "DeviceType", "SavedTensor", "_pop_saved_tensors_default_hooks", "_profiler_enabled", "_profiler_type",
    "_push_saved_tensors_default_hooks", "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable",
    "_saved_tensors_hooks_get_disabled_error_message", "_saved_tensors_hooks_is_enabled", "_supported_activities",
    "kineto_available",
]  # fmt: skip


def _push_saved_tensors_default_hooks(pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
    """From now on, saved tensors are packed so."""
    saved_tensors_hooks(pack_hook, unpack_hook).__enter__()


def _pop_saved_tensors_default_hooks() -> None:
    """End the last of these."""
    saved_tensors_hooks(id, id).__exit__()


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether hooks on saved tensors are allowed."""
    return local.modes.saved_hooks_disabled is None


def _saved_tensors_hooks_enable() -> None:
    local.modes.saved_hooks_disabled = None


def _saved_tensors_hooks_disable(error_message: str, fail_if_non_empty: bool = True) -> None:
    """Forbid hooks on saved tensors, with a message for the error."""
    if fail_if_non_empty and local.modes.saved_hooks:
        raise RuntimeError(error_message)
    local.modes.saved_hooks_disabled = error_message


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    return local.modes.saved_hooks_disabled


def _profiler_type() -> ActiveProfilerType:
    """Which profiler is at work."""
    return ActiveProfilerType.LEGACY if _recording else ActiveProfilerType.NONE


def _unsafe_set_version_counter(tensors: tuple[Any, ...], versions: tuple[int, ...]) -> None:
    """Set the count of writes to each tensor."""
    if len(tensors) != len(versions):
        raise RuntimeError(f"{len(tensors)} tensors and {len(versions)} versions were given")
    for tensor, version in zip(tensors, versions, strict=True):
        tensor._get_storage().version = version
