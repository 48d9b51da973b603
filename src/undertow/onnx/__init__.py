"""`torch.onnx`: undertow does not export. Registrations for an export are accepted and ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def is_in_onnx_export() -> bool:
    """Whether a model is being exported."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Ignore the export function of an operator."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Do nothing: `register_custom_op_symbolic` registers nothing."""
