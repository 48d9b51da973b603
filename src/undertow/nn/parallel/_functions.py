"""Moving tensors between devices, as functions with gradients."""

from __future__ import annotations

from typing import Any

from undertow._tensor import Tensor
from undertow.autograd.function import Function
from undertow.nn.parallel.scatter_gather import gather, scatter

__all__ = ["Broadcast", "Gather", "Scatter"]


class Broadcast(Function):
    """Tensors, once per device."""

    @staticmethod
    def forward(ctx: Any, target_gpus: Any, *inputs: Any) -> tuple[Any, ...]:
        ctx.count = len(inputs)
        return tuple(tensor.to(device).clone() for device in target_gpus for tensor in inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        return None, *[sum(grad_outputs[place :: ctx.count]) for place in range(ctx.count)]


class Scatter(Function):
    """A tensor in parts, one per device."""

    @staticmethod
    def forward(ctx: Any, target_gpus: Any, chunk_sizes: Any, dim: int, input: Tensor) -> tuple[Any, ...]:
        ctx.dim, ctx.device = dim, input.device
        parts = input.split(chunk_sizes, dim) if chunk_sizes is not None else scatter(input, target_gpus, dim)
        return tuple(part.clone() for part in parts)

    @staticmethod
    def backward(ctx: Any, *grad_output: Any) -> tuple[Any, ...]:
        return None, None, None, gather(list(grad_output), ctx.device, ctx.dim)


class Gather(Function):
    """Tensors of several devices as one."""

    @staticmethod
    def forward(ctx: Any, target_device: Any, dim: int, *inputs: Any) -> Any:
        ctx.dim, ctx.numbers = dim, inputs[0].dim() == 0
        ctx.sizes = [1 if ctx.numbers else tensor.size(dim) for tensor in inputs]
        return gather(list(inputs), target_device, dim)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> tuple[Any, ...]:
        parts = grad_output.split(ctx.sizes, 0 if ctx.numbers else ctx.dim)
        return None, None, *[part[0] if ctx.numbers else part for part in parts]
