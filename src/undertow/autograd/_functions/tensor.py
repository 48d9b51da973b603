"""Functions that convert tensors to a different dtype or shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow.autograd.function import Function

if TYPE_CHECKING:
    from undertow._src.types.dtypes import dtype
    from undertow._tensor import Tensor


class Type(Function):
    """Convert a tensor to a different type."""

    @staticmethod
    def forward(ctx: Any, i: Tensor, dest_type: str | dtype) -> Any:
        ctx.input_type = i.type()
        return i.type(dest_type)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output.type(ctx.input_type), None


class Resize(Function):
    """Reshape a tensor to a shape with the same number of elements."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: Sequence[int]) -> Tensor:
        if math.prod(sizes) != tensor.numel():
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({math.prod(sizes)} elements in total), but the "
                f"tensor is of {'x'.join(map(str, tensor.size()))} ({tensor.numel()} elements). autograd's resize "
                "can only change the shape: the number of elements must stay the same."
            )
        ctx.input_sizes = tensor.size()
        return tensor.contiguous().view(*sizes) if tensor.numel() else tensor.new(*sizes)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output.contiguous().view(ctx.input_sizes), None
