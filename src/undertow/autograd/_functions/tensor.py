"""Tensors of another type, or of another shape."""

from __future__ import annotations

import math
from typing import Any

from undertow.autograd.function import Function


class Type(Function):
    """A tensor as another type."""

    @staticmethod
    def forward(ctx: Any, i: Any, dest_type: object) -> Any:
        ctx.input_type = i.type()
        return i.type(dest_type)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.type(ctx.input_type), None


class Resize(Function):
    """A tensor in another shape with as many elements."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, sizes: Any) -> Any:
        if math.prod(sizes) != tensor.numel():
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({math.prod(sizes)} elements in total), but the "
                f"tensor is of {'x'.join(map(str, tensor.size()))} ({tensor.numel()} elements). autograd's resize "
                "can only change the shape: as many elements must come out as go in."
            )
        ctx.input_sizes = tensor.size()
        return tensor.contiguous().view(*sizes) if tensor.numel() else tensor.new(*sizes)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.contiguous().view(ctx.input_sizes), None
