"""Memory shared with other array libraries."""

from __future__ import annotations

from typing import Any

from undertow.dlpack import export
from undertow.from_data import from_dlpack as from_dlpack


def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule over a tensor's memory."""
    if tensor.requires_grad:
        raise RuntimeError("Can't export tensors that require gradient, use tensor.detach()")
    return export(tensor._array)
