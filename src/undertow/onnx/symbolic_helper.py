"""`torch.onnx.symbolic_helper`: decorators for export functions, which return them unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors: str) -> Callable[[_Function], _Function]:
    """Declare the argument types of an export function."""
    return lambda function: function


def quantized_args(*arg_q_descriptors: bool, **defaults: Any) -> Callable[[_Function], _Function]:
    """Declare which arguments of an export function may be quantized."""
    return lambda function: function
