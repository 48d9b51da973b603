"""`torch._C._nn`: compiled functions of `torch.nn`, of which packages use the one that reads the arguments of `to`."""

from __future__ import annotations

from typing import Any

from undertow._core import TensorCore
from undertow.devices import device as Device
from undertow.dtypes import SCALAR_DTYPE, dtype, float64
from undertow.tensor_convert import _parse_to as _read

__all__ = ["_parse_to"]


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Device | None, dtype | None, bool, Any]:
    """The device, dtype, non_blocking and memory_format that a call of `to` with these arguments means."""
    if len(args) == 1 and type(args[0]) in (bool, int, float):  # numbers count as tensors here
        kind = float64 if type(args[0]) is float else SCALAR_DTYPE[type(args[0])]
        return Device("cpu"), kind, False, None
    given = _read(args, kwargs)
    device, other = given.get("device"), given.get("other")
    if isinstance(other, TensorCore):
        device = other.device
    elif device is not None and not isinstance(device, Device):
        device = Device(device)
    return device, given.get("dtype"), bool(given.get("non_blocking", False)), given.get("memory_format")
