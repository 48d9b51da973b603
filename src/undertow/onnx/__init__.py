"""`torch.onnx`: undertow exports nothing, and says so to layers that ask. What packages prepare for it is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def is_in_onnx_export() -> bool:
    """Whether a model is being exported."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """How an operator would be written to a file; no file is written."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Take back what `register_custom_op_symbolic` said."""
