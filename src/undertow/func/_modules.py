"""Helpers for modules and tensors under transforms."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from undertow.func._vmapping import transforming
from undertow.nn.modules.batchnorm import _BatchNorm


def batch_norm_without_running_stats(module: Any) -> None:
    """Remove the running averages of a batch norm; leave other modules unchanged."""
    if isinstance(module, _BatchNorm) and module.track_running_stats:
        module.running_mean = module.running_var = module.num_batches_tracked = None
        module.track_running_stats = False


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Remove the running averages of all batch norms in a module: vmap can't update them."""
    for module in root.modules():
        batch_norm_without_running_stats(module)
    return root


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return func without in-place functions. It runs unchanged, which gives the same results."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. It is 'mutations' or "
            "'mutations_and_views'."
        )

    @functools.wraps(func)
    def functionalized(*args: Any, **kwargs: Any) -> Any:
        with transforming():
            return func(*args, **kwargs)

    return functionalized


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """Return the tensor inside a transform's wrapper, for debugging only."""
    while hasattr(tensor, "_value"):
        tensor = tensor._value
        if not recurse:
            break
    return copy.copy(tensor)
