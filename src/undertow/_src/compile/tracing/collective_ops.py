"""Collectives as operations of a program, and their order.

NOTE order. XLA may run operations that do not depend on each other in any order, and it reduces constants without
communication. Both are right only if all ranks run the same program, which they need not. So each collective depends on
a result of the one before it, and the first on the rank's number, which XLA does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

_REDUCTIONS = {"SUM": stablehlo.AddOp, "MAX": stablehlo.MaxOp, "MIN": stablehlo.MinOp}

_all_reduce = Primitive("undertow_all_reduce")
_all_reduce.multiple_results = True
_all_gather = Primitive("undertow_all_gather")
_exchange = Primitive("undertow_exchange")
_rank = Primitive("undertow_rank")


@_all_reduce.def_abstract_eval
def _(*values: Any, op: str, size: int) -> list[Any]:
    return [ShapedArray(value.shape, value.dtype) for value in values]


@_all_gather.def_abstract_eval
def _(value: Any, *, size: int) -> Any:
    return ShapedArray((size, *value.shape[1:]), value.dtype)


@_exchange.def_abstract_eval
def _(value: Any, *, size: int) -> Any:
    return ShapedArray(value.shape, value.dtype)


@_rank.def_abstract_eval
def _() -> Any:
    return ShapedArray((), np.dtype(np.uint32))


def _groups(size: int) -> Any:
    return ir.DenseElementsAttr.get(np.arange(size, dtype=np.int64).reshape(1, size))


def _lower_all_reduce(context: Any, *values: Any, op: str, size: int) -> Any:
    made = stablehlo.AllReduceOp([value.type for value in values], values, replica_groups=_groups(size))
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(values[0].type).element_type)
    block = made.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        stablehlo.return_([_REDUCTIONS[op](*block.arguments).result])
    return made.results


def _lower_all_gather(context: Any, value: Any, *, size: int) -> Any:
    result = ir.RankedTensorType.get(context.avals_out[0].shape, ir.RankedTensorType(value.type).element_type)
    return stablehlo.AllGatherOp([result], [value], all_gather_dim=0, replica_groups=_groups(size)).results


def _lower_exchange(context: Any, value: Any, *, size: int) -> Any:
    return stablehlo.AllToAllOp([value], 0, 0, size, _groups(size)).results


mlir.register_lowering(_all_reduce, _lower_all_reduce)
mlir.register_lowering(_exchange, _lower_exchange)
mlir.register_lowering(_all_gather, _lower_all_gather)
mlir.register_lowering(_rank, lambda context: stablehlo.ReplicaIdOp().results)


class CollectiveOps:
    """The operations with which a collective is written; `size` ranks run them."""

    numpy = jnp

    def __init__(self, size: int, previous: Any, failed: Any = 0) -> None:
        self.size = size
        self.failed = failed  # 1 if a hook has raised on this rank, else 0
        self.failed_anywhere: Any = None  # whether one has raised on any rank, if the collective tells
        self.last = previous  # an integer that the last collective has made, or None

    def all_reduce(self, values: Sequence[Any], op: str = "SUM") -> list[Any]:
        """Return the reductions of arrays of one dtype."""
        found = list(values)
        if self.size > 1 and found:
            found = _all_reduce.bind(*map(self.after, found), op=op, size=self.size)
            self.last = self.made(found[-1])
        return found

    def all_gather(self, value: Any) -> Any:
        """Return the arrays of all ranks, as rows."""
        row = value[None]
        if self.size == 1:
            return row
        rows = _all_gather.bind(self.after(row), size=self.size)
        self.last = self.made(rows)
        return rows

    def exchange(self, rows: Any) -> Any:
        """Send each rank one of the rows, and return those that the ranks sent."""
        if self.size == 1 or not rows.size:
            return rows
        received = _exchange.bind(self.after(rows), size=self.size)
        self.last = self.made(received)
        return received

    def bits(self, value: Any) -> Any:
        """Return an array as integers, which no sum changes."""
        if value.dtype.kind == "c":
            value = jnp.stack([value.real, value.imag])
        if value.dtype == bool:
            return value.astype(np.uint8)
        return jax.lax.bitcast_convert_type(value, f"uint{8 * value.dtype.itemsize}")

    def of_bits(self, bits: Any, dtype: Any) -> Any:
        """Return the array of a dtype with these bits."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return bits.astype(dtype)
        if dtype.kind == "c":
            parts = jax.lax.bitcast_convert_type(bits, f"float{4 * dtype.itemsize}")
            return jax.lax.complex(parts[0], parts[1])
        return jax.lax.bitcast_convert_type(bits, dtype)

    def after(self, value: Any) -> Any:
        """Return a value that is computed after the last collective."""
        if self.last is None:
            self.last = _rank.bind().astype(np.int32)
        never = (self.last == 1) & (self.last == 2)  # XLA does not know that
        return jnp.where(never, self.last.astype(value.dtype), value)

    def made(self, value: Any) -> Any:
        """Return an integer that depends on an array which a collective has made."""
        if not value.size:
            return self.last
        first = jax.lax.reshape(value, (value.size,))[0]
        return (first.real if value.dtype.kind == "c" else first).astype(np.int32)
