"""Private helpers of PyTorch's schedulers that other packages import."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow.optim._lr_base import warn_outside_step as _warn_get_lr_called_within_step

__all__ = ["_warn_get_lr_called_within_step"]


class _enable_get_lr_call:
    """Let `get_lr` be called without a warning inside the block."""

    def __init__(self, o: Any) -> None:
        self.o = o

    def __enter__(self) -> _enable_get_lr_call:
        self.o._get_lr_called_within_step = True
        return self

    def __exit__(self, *exception: object) -> None:
        self.o._get_lr_called_within_step = False


class _initial_mode:
    """Mark the scheduler as making its first step inside the block."""

    def __init__(self, o: Any) -> None:
        self.o = o

    def __enter__(self) -> None:
        self.o._is_initial = True

    def __exit__(self, *exception: object) -> None:
        self.o._is_initial = False


def _format_param(name: str, optimizer: Any, param: Any) -> list[Any]:
    """Return one value for each group: the given list, or copies of one value."""
    groups = optimizer.param_groups
    if not isinstance(param, (list, tuple)):
        return [param] * len(groups)
    if len(param) != len(groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(param)} values, param_groups has "
            f"{len(groups)}."
        )
    return list(param)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, TensorCore) else value


def _update_param_group_val(param_group: dict[str, Any], key: str, val: Any) -> None:
    """Set an option of a group; a tensor is filled in place."""
    if isinstance(param_group[key], TensorCore):
        param_group[key].fill_(val)
    else:
        param_group[key] = val


def _param_groups_val_list(optimizer: Any, key: str) -> list[Any]:
    """Return an option of each group."""
    return [_copied(group[key]) for group in optimizer.param_groups]
