"""`torch.onnx`: undertow exports nothing, and says so to layers that ask."""

from __future__ import annotations

__all__ = ["is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """Whether a model is being exported."""
    return False
