"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from undertow._src.ops.join import cat
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Any]) -> Tensor:
    """Return all parameters, flattened and concatenated."""
    return cat([param.view(-1) for param in parameters])


def _check_param_device(param: Tensor, old_param_device: int | None) -> int:
    """Return the device of a parameter as a number, -1 for the CPU; raise if it differs from the previous ones."""
    device = param.get_device()
    if old_param_device is not None and device != old_param_device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return device


def vector_to_parameters(vec: Tensor, parameters: Iterable[Any]) -> None:
    """Make parameters views of the slices of a vector, in order."""
    if not isinstance(vec, TensorCore):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    vector: Any = vec
    start = 0
    for param in parameters:
        stop = start + param.numel()
        param.data = vector[start:stop].view_as(param).data
        start = stop
