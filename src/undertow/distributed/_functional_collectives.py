"""Collectives that return a new tensor and leave their input as it is, with gradients.

A backward communicates, too, so every rank must run the same backward passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.distributed import functions, scattering
from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.reduce_ops import ReduceOp
from undertow._src.distributed.state import default_group, state
from undertow._src.distributed.subgroups import get_global_rank
from undertow._src.ops.join import cat
from undertow.autograd.function import Function
from undertow.distributed.device_mesh import DeviceMesh

_OPS = {
    "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX,
    "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR,
}  # fmt: skip


def _group(given: Any) -> ProcessGroup:
    """Return the group that is given: as itself, a mesh of one dim, a mesh and a dim, a name, or its ranks."""
    if isinstance(given, ProcessGroup):
        return given
    if isinstance(given, DeviceMesh):
        if given.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return given.get_group()
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], DeviceMesh):
        return given[0].get_group(given[1])
    default_group()
    for group in state.groups:
        if given in (group.group_name, list(group.ranks)):
            return group
    raise ValueError(
        f"Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int): {given}"
    )


def _op(name: str) -> Any:
    found = _OPS.get(name.lower())
    if found is None:
        raise RuntimeError(f"Unrecognized reduce_op: {name}")
    return found


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, op: str, group: Any) -> Any:
        ctx.op, ctx.group = op.lower(), group
        result = tensor.detach().contiguous().clone()
        functions.all_reduce(result, _op(op), group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if ctx.op not in ("sum", "avg"):
            raise RuntimeError(f"all_reduce_backward: the reduction {ctx.op} has no gradient, only sum and avg do")
        return all_reduce(gradient, ctx.op, ctx.group), None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        result = tensor.new_empty((tensor.shape[0] * group.size(), *tensor.shape[1:]))
        functions.all_gather_into_tensor(result, tensor.detach().contiguous(), group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return reduce_scatter_tensor(gradient, "sum", 0, ctx.group), None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, op: str, group: Any) -> Any:
        ctx.op, ctx.group = op.lower(), group
        result = tensor.new_empty((tensor.shape[0] // group.size(), *tensor.shape[1:]))
        scattering.reduce_scatter_tensor(result, tensor.detach().contiguous(), _op(op), group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if ctx.op not in ("sum", "avg"):
            raise RuntimeError(f"reduce_scatter_backward: the reduction {ctx.op} has no gradient, only sum and avg do")
        whole = all_gather_tensor(gradient, 0, ctx.group)
        return whole / ctx.group.size() if ctx.op == "avg" else whole, None, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, received: Any, sent: Any, group: Any) -> Any:
        ctx.received, ctx.sent, ctx.group = received, sent, group
        rows = tensor.shape[0] if received is None else sum(received)
        result = tensor.new_empty((rows, *tensor.shape[1:]))
        scattering.all_to_all_single(result, tensor.detach().contiguous(), received, sent, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return all_to_all_single(gradient, ctx.sent, ctx.received, ctx.group), None, None, None


def wait_tensor(tensor: Any) -> Any:
    """Return the tensor: its collective has ended."""
    return tensor


def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """Return the reduction of every rank's tensor."""
    return _AllReduce.apply(self, reduceOp, _group(group))


def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """Return the tensor of one rank, given by its rank in the group."""
    chosen, result = _group(group), self.detach().contiguous().clone()
    functions.broadcast(result, get_global_rank(chosen, src), chosen)
    return result


def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """Return the tensors of all ranks, concatenated along a dim."""
    chosen = _group(group)
    whole = _AllGather.apply(self, chosen)
    return whole if gather_dim == 0 else cat(whole.chunk(chosen.size()), gather_dim)


def reduce_scatter_tensor(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:
    """Return this rank's part, along a dim, of the reduction of every rank's tensor."""
    chosen = _group(group)
    count = self.shape[scatter_dim]
    if count % chosen.size():
        raise AssertionError(
            f"input dimension {scatter_dim} ({count} must be a multiple of group_size {chosen.size()})"
        )
    rows = self if scatter_dim == 0 else cat(self.chunk(chosen.size(), scatter_dim))
    return _ReduceScatter.apply(rows, reduceOp, chosen)


def all_to_all_single(
    self: Any,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Any:
    """Return the rows that each rank has for this one."""
    sizes = [None if each is None else list(each) for each in (output_split_sizes, input_split_sizes)]
    return _AllToAll.apply(self, *sizes, _group(group))


# Older names, from when only these had gradients.
all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single


def all_reduce_coalesced(self: Sequence[Any], reduceOp: str, group: Any, tag: str = "") -> list[Any]:
    """Return the reduction of each tensor."""
    return [all_reduce(tensor, reduceOp, group) for tensor in self]


def all_gather_into_tensor_coalesced(self: Sequence[Any], group: Any, tag: str = "") -> list[Any]:
    """Return each tensor's concatenation over the ranks."""
    return [all_gather_tensor(tensor, 0, group) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Any], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Any]:
    """Return this rank's part of the reduction of each tensor."""
    return [reduce_scatter_tensor(each, reduceOp, dim, group) for each, dim in zip(inputs, scatter_dim, strict=True)]
