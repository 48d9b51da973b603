"""DataParallel: on one device it calls the module itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.types.aliases import Device
from undertow.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Splits a batch over GPUs. Without a GPU, as PyTorch does, it calls the module it wraps."""

    def __init__(
        self, module: Module, device_ids: Sequence[Device] | None = None, output_device: Device = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: object, device_ids: Sequence[Device] | None = None, output_device: Device = None,
    dim: int = 0, module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Call a module on inputs, split over GPUs if there are any."""
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*given, **(module_kwargs or {}))
