"""`ReduceOp`: the reductions over ranks, and the dtypes that each accepts."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class RedOpType(IntEnum):
    """A reduction."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class ReduceOp:
    """A reduction, optionally with a factor: `ReduceOp.SUM` and the others are members of `ReduceOp.RedOpType`."""

    __module__ = "torch.distributed.distributed_c10d"
    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX = RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT, RedOpType.MIN, RedOpType.MAX
    BAND, BOR, BXOR, PREMUL_SUM = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR, RedOpType.PREMUL_SUM
    UNUSED = RedOpType.UNUSED

    def __init__(self, op: int, factor: Any = None) -> None:
        self.op, self.factor = RedOpType(op), factor

    def __eq__(self, other: object) -> bool:
        return self.op == (other.op if isinstance(other, ReduceOp) else other)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"<torch.distributed.distributed_c10d.ReduceOp {self.op}>"


def _make_nccl_premul_sum(factor: Any) -> ReduceOp:
    """Return the reduction that multiplies values by a factor, then adds them."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


def checked(op: Any, tensor: Any, function: str) -> tuple[str, Any]:
    """Return a reduction's name and factor, if it accepts the tensor's dtype."""
    if not isinstance(op, (ReduceOp, RedOpType)):
        raise TypeError(f"{function}(): incompatible function arguments: op must be a ReduceOp, not {op!r}")
    kind = op.op if isinstance(op, ReduceOp) else op
    factor = op.factor if isinstance(op, ReduceOp) else None
    dtype = tensor.dtype
    if dtype.is_complex and kind not in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM):
        raise ValueError(f"{function} does not support {kind} on complex tensors")
    if kind in (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR) and (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    if kind is RedOpType.AVG and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"ReduceOp.AVG: result type Float can't be cast to {dtype}: average a float tensor")
    if kind is RedOpType.PREMUL_SUM and factor is None:
        raise ValueError("ReduceOp.PREMUL_SUM needs a factor: use _make_nccl_premul_sum(factor)")
    if kind is RedOpType.UNUSED:
        raise RuntimeError("ReduceOp.UNUSED is no reduction")
    return kind.name, getattr(factor, "_array", factor)
