"""`torch.onnx.symbolic_helper`: decorators of functions that an export would call; they leave them as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors: str) -> Callable[[_Function], _Function]:
    """Say what kinds of arguments a function of an export takes."""
    return lambda function: function


def quantized_args(*arg_q_descriptors: bool, **defaults: Any) -> Callable[[_Function], _Function]:
    """Say which arguments of a function of an export may be quantised."""
    return lambda function: function
