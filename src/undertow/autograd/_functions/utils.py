"""Undoing a stretch of a shape."""

from __future__ import annotations

from typing import Any


def maybe_view(tensor: Any, size: Any, check_same_size: bool = True) -> Any:
    """Return a tensor in another shape, itself where it has that shape."""
    return tensor if check_same_size and tensor.size() == size else tensor.contiguous().view(size)


def maybe_unexpand(tensor: Any, old_size: Any, check_same_size: bool = True) -> Any:
    """Return a tensor summed over the dims that were broadcast from an old shape."""
    if check_same_size and tensor.size() == old_size:
        return tensor
    more = tensor.dim() - len(old_size)
    stretched = [dim for dim in range(more, tensor.dim()) if tensor.size(dim) != old_size[dim - more]]
    for _ in range(more):
        tensor = tensor.sum(0, keepdim=False)
    for dim in stretched:
        tensor = tensor.sum(dim - more, keepdim=True)
    return tensor
