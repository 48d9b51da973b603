"""Learning rate schedulers, and private helpers of PyTorch's that packages import."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow.optim._lr_base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from undertow.optim._lr_base import LRScheduler as LRScheduler
from undertow.optim._lr_base import _LRScheduler as _LRScheduler
from undertow.optim._lr_base import warn_outside_step as _warn_get_lr_called_within_step  # noqa: F401
from undertow.optim._lr_composed import ChainedScheduler as ChainedScheduler
from undertow.optim._lr_composed import ReduceLROnPlateau as ReduceLROnPlateau
from undertow.optim._lr_composed import SequentialLR as SequentialLR
from undertow.optim._lr_cycles import CosineAnnealingLR as CosineAnnealingLR
from undertow.optim._lr_cycles import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from undertow.optim._lr_cycles import CyclicLR as CyclicLR
from undertow.optim._lr_cycles import OneCycleLR as OneCycleLR
from undertow.optim._lr_factors import ConstantLR as ConstantLR
from undertow.optim._lr_factors import ExponentialLR as ExponentialLR
from undertow.optim._lr_factors import LambdaLR as LambdaLR
from undertow.optim._lr_factors import LinearLR as LinearLR
from undertow.optim._lr_factors import MultiplicativeLR as MultiplicativeLR
from undertow.optim._lr_factors import MultiStepLR as MultiStepLR
from undertow.optim._lr_factors import PolynomialLR as PolynomialLR
from undertow.optim._lr_factors import StepLR as StepLR

__all__ = [
    "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "SequentialLR",
    "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR", "CosineAnnealingWarmRestarts",
    "OneCycleLR", "PolynomialLR", "LRScheduler",
]  # fmt: skip


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


# Their __module__ is PyTorch's, which pickled files name.
for _name in (*__all__, "_LRScheduler", "_enable_get_lr_call", "_initial_mode"):
    globals()[_name].__module__ = __name__
