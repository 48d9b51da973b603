"""Placements of a tensor along one dim of a mesh: whole on each rank, split, or as terms that are still to be reduced."""

from __future__ import annotations

from typing import Any

from undertow._src.distributed.reduce_ops import ReduceOp


class Placement:
    """The placement of a tensor along one dim of a mesh."""

    __module__ = "torch.distributed.tensor.placement_types"
    __slots__ = ()

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank has a part, split along this dim of the tensor (None: along any)."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether each rank has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each rank has a term, and the value is the reduction of these."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


class Shard(Placement):
    """Each rank has a part of the tensor, split along a dim as `chunk` does."""

    __module__ = "torch.distributed.tensor.placement_types"
    __slots__ = ("dim",)

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shard) and self.dim == other.dim

    def __hash__(self) -> int:
        return hash(("shard", self.dim))

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.dim,)

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return the size of a rank's part of a dim, and where it begins."""
        step = -(-curr_local_size // num_chunks)
        start = min(step * rank, curr_local_size)
        return min(step, curr_local_size - start), start


class Replicate(Placement):
    """Each rank has the whole tensor."""

    __module__ = "torch.distributed.tensor.placement_types"
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replicate)

    def __hash__(self) -> int:
        return hash("replicate")

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"

    def __reduce__(self) -> tuple[Any, ...]:
        return Replicate, ()


class Partial(Placement):
    """Each rank has a term; the tensor is their sum, or another reduction of them."""

    __module__ = "torch.distributed.tensor.placement_types"
    __slots__ = ("reduce_op",)

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.reduce_op == other.reduce_op

    def __hash__(self) -> int:
        return hash(("partial", self.reduce_op))

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Partial, (self.reduce_op,)

    def before(self, local: Any) -> Any:
        """Return this rank's contribution to the reduction, computed from its term."""
        return local

    def after(self, reduced: Any) -> Any:
        """Return the tensor, computed from the result of the reduction."""
        return reduced

    @property
    def op(self) -> Any:
        """The reduction over ranks."""
        return getattr(ReduceOp, self.reduce_op.upper())


class NormPartial(Partial):
    """Each rank has the norm of its part; the tensor is the norm of these norms."""

    __slots__ = ("norm_type",)

    def __init__(self, norm_type: float = 2.0) -> None:
        super().__init__("sum")
        self.norm_type = norm_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NormPartial) and self.norm_type == other.norm_type

    def __hash__(self) -> int:
        return hash(("norm", self.norm_type))

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type:g})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return NormPartial, (self.norm_type,)

    def before(self, local: Any) -> Any:
        return local**self.norm_type if self.norm_type != 0 else local

    def after(self, reduced: Any) -> Any:
        return reduced ** (1 / self.norm_type) if self.norm_type != 0 else reduced
