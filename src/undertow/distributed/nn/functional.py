"""Collectives with gradients: the backward of each is the collective in the opposite direction.

A backward communicates, too, so every rank must run the same backward passes.
"""

from __future__ import annotations

from typing import Any

from undertow._src.distributed import functions, scattering
from undertow._src.distributed.reduce_ops import ReduceOp
from undertow._src.distributed.state import member
from undertow._src.tensor.creation import empty_like, zeros_like
from undertow.autograd.function import Function

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


def _rank(group: Any) -> int:
    """Return this process's global rank."""
    found = member(group)
    return -1 if found is None else found.world.rank


def _size(group: Any) -> int:
    found = member(group)
    return 0 if found is None else found.size()


def _owned(gradient: Any) -> Any:
    """Return a contiguous copy of a gradient."""
    return gradient.detach().contiguous().clone()


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Any) -> Any:
        ctx.src, ctx.group = src, group
        tensor = tensor.clone()
        functions.broadcast(tensor, src, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        total = _owned(gradient)
        functions.reduce(total, ctx.src, ReduceOp.SUM, ctx.group)
        return None, None, total if _rank(ctx.group) == ctx.src else zeros_like(total)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        tensor = tensor.clone()
        functions.reduce(tensor, dst, op, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        shared = _owned(gradient)
        functions.broadcast(shared, ctx.dst, ctx.group)
        return None, None, None, shared


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Any) -> Any:
        ctx.op, ctx.group = op, group
        tensor = tensor.clone()
        functions.all_reduce(tensor, op, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        total = _owned(gradient)
        functions.all_reduce(total, ctx.op, ctx.group)
        return None, None, total


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Any) -> Any:
        ctx.group = group
        parts = [empty_like(tensor) for _ in range(_size(group))]
        functions.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        total = empty_like(gradients[0]).contiguous()
        scattering.reduce_scatter(total, [_owned(each) for each in gradients], ReduceOp.SUM, ctx.group)
        return None, total


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        parts = [zeros_like(tensor) for _ in range(_size(group))]
        scattering.gather(tensor.contiguous(), parts if _rank(group) == dst else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        own = empty_like(gradients[0]).contiguous()
        at_root = _rank(ctx.group) == ctx.dst
        scattering.scatter(own, [_owned(each) for each in gradients] if at_root else None, ctx.dst, ctx.group)
        return None, None, own


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Any) -> Any:
        ctx.src, ctx.group = src, group
        own = zeros_like(tensors[0])
        scattering.scatter(own, [each.contiguous() for each in tensors] if _rank(group) == src else None, src, group)
        return own

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        parts = [zeros_like(gradient) for _ in range(_size(ctx.group))]
        scattering.gather(_owned(gradient), parts if _rank(ctx.group) == ctx.src else None, ctx.src, ctx.group)
        return (None, None, *parts)


class _Reduce_Scatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, output: Any, *tensors: Any) -> Any:
        ctx.group = group
        output = output.detach().clone()
        scattering.reduce_scatter(output, [each.contiguous() for each in tensors], op, group)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        parts = [empty_like(gradient) for _ in range(_size(ctx.group))]
        functions.all_gather(parts, _owned(gradient), ctx.group)
        return (None, None, None, *parts)


class _AlltoAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: Any, *tensors: Any) -> Any:
        ctx.group = group
        ctx.shapes = [each.shape for each in tensors]
        outputs = [each.detach().clone() for each in outputs]
        scattering.all_to_all(outputs, [each.contiguous() for each in tensors], group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        given = [_owned(each) for each in gradients]
        parts = [given[0].new_empty(shape) for shape in ctx.shapes]
        scattering.all_to_all(parts, given, ctx.group)
        return (None, None, *parts)


class _AlltoAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Any, output_sizes: Any, input_sizes: Any, tensor: Any) -> Any:
        ctx.group, ctx.shape = group, tensor.shape
        ctx.output_sizes, ctx.input_sizes = output_sizes, input_sizes
        output = output.detach().clone()
        scattering.all_to_all_single(output, tensor.contiguous(), output_sizes, input_sizes, group)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        own = gradient.new_empty(ctx.shape)
        scattering.all_to_all_single(own, _owned(gradient), ctx.input_sizes, ctx.output_sizes, ctx.group)
        return None, None, None, None, own


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return the tensor of one rank, on every rank."""
    return _Broadcast.apply(src, group, tensor)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> Any:
    """Return the tensors of all ranks, on one rank; zeros on the others."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Any:
    """Return this rank's tensor of a list that one rank has."""
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduction of all ranks' tensors, on one rank."""
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return this rank's part of the reduction of all ranks' lists."""
    return _Reduce_Scatter.apply(op, group, output, *input_list)


def all_gather(tensor: Any, group: Any = None) -> Any:
    """Return the tensors of all ranks."""
    return _AllGather.apply(group, tensor)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> Any:
    """Send each rank one tensor of a list; return the tensors that the ranks send."""
    return _AlltoAll.apply(group, output_tensor_list, *input_tensor_list)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Any:
    """Send each rank a part of a tensor; return the parts that the ranks send, concatenated."""
    return _AlltoAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduction of all ranks' tensors, on every rank."""
    return _AllReduce.apply(op, group, tensor)
