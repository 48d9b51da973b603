"""Undo the broadcasting of a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from undertow._src.types.sizes import Size
    from undertow._tensor import Tensor


def maybe_view(tensor: Tensor, size: Size, check_same_size: bool = True) -> Tensor:
    """Return a view of this shape; the tensor itself if it already has the shape."""
    return tensor if check_same_size and tensor.size() == size else tensor.contiguous().view(size)


def maybe_unexpand(tensor: Tensor, old_size: Size, check_same_size: bool = True) -> Tensor:
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
