"""Memory shared with other array libraries."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from undertow._src.tensor.dlpack import export
from undertow._src.tensor.from_data import from_dlpack as from_dlpack


class DLDeviceType(IntEnum):
    """DLPack's numbers of device types."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor: Any) -> Any:
    """Return a DLPack capsule over a tensor's memory."""
    return export(tensor._array)
