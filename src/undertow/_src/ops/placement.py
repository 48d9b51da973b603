"""Moving tensors between devices."""

from __future__ import annotations

from typing import Any

from undertow._src.arrays.device.placement import placed
from undertow._src.engine.apply import apply
from undertow._src.rules.rule import op
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import device as Device


def _place(array: object, where: Device) -> Any:
    """Return an array, or a gradient that is itself recorded, on a device."""
    return moved(array, where) if isinstance(array, TensorCore) else placed(array, where)


to_device = op(
    "to_device",
    lambda xp, self, *, to, source: _place(self, to),
    node="ToCopyBackward0",
    self=lambda g, to, source: _place(g, source),
)  # fmt: skip


def moved(tensor: Any, to: Device) -> Any:
    """Return the tensor on a different device; its gradient is moved back."""
    return apply(to_device, tensor, to=to, source=tensor.device)
