"""Modules and tensors under transforms."""

from __future__ import annotations

import copy
from typing import Any

from undertow.nn.modules.batchnorm import _BatchNorm


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Makes batch norms forget their running averages, which vmap can't keep."""
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """What a tensor seen inside a transform holds; for looking at, not for computing."""
    while hasattr(tensor, "_value"):
        tensor = tensor._value
        if not recurse:
            break
    return copy.copy(tensor)
