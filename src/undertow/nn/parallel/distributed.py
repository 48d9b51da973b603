"""`DistributedDataParallel`, for `isinstance` checks in packages. Without process groups, none can be made."""

from __future__ import annotations

from typing import Any

from undertow.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A model that averages its gradients with those of other processes."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
