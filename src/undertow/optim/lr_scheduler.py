"""Learning rate schedulers."""

from undertow.optim._lr_base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from undertow.optim._lr_base import LRScheduler as LRScheduler
from undertow.optim._lr_base import _LRScheduler as _LRScheduler
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
from undertow.optim._lr_names import _enable_get_lr_call as _enable_get_lr_call
from undertow.optim._lr_names import _format_param as _format_param
from undertow.optim._lr_names import _initial_mode as _initial_mode
from undertow.optim._lr_names import _param_groups_val_list as _param_groups_val_list
from undertow.optim._lr_names import _update_param_group_val as _update_param_group_val
from undertow.optim._lr_names import _warn_get_lr_called_within_step as _warn_get_lr_called_within_step

__all__ = [
    "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "SequentialLR",
    "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR", "CosineAnnealingWarmRestarts",
    "OneCycleLR", "PolynomialLR", "LRScheduler",
]  # fmt: skip

# Their __module__ is PyTorch's, which pickled files name.
for _name in (*__all__, "_LRScheduler", "_enable_get_lr_call", "_initial_mode"):
    globals()[_name].__module__ = __name__
