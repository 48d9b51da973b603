"""The helpers that optimizers written with `torch._foreach_*` import."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.nn.parameter import Parameter
from undertow.optim._helpers import _get_foreach_kernels_supported_devices as _get_foreach_kernels_supported_devices
from undertow.optim._helpers import _get_fused_kernels_supported_devices as _get_fused_kernels_supported_devices
from undertow.optim._helpers import _group_tensors_by_device_and_dtype as _group_tensors_by_device_and_dtype

__all__ = [
    "_device_has_foreach_support", "_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype", "_has_foreach_support",
]  # fmt: skip


_foreach_supported_types = [Tensor, Parameter]


def _device_has_foreach_support(device: Any) -> bool:
    """Whether foreach functions are fast on a device."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    """Whether all are tensors on a device where foreach functions are fast."""
    return _device_has_foreach_support(device) and all(
        tensor is None or isinstance(tensor, TensorCore) for tensor in tensors
    )
