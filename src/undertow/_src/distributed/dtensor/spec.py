"""The layout of a distributed tensor, and the part that each rank has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from undertow._src.distributed.dtensor.placements import Partial, Placement, Replicate, Shard


class TensorMeta(NamedTuple):
    """Shape, strides and dtype of a whole tensor."""

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


class DTensorSpec:
    """A mesh, one placement for each of its dims, and the metadata of the whole tensor."""

    __slots__ = ("mesh", "placements", "tensor_meta")

    def __init__(self, mesh: Any, placements: tuple[Placement, ...], tensor_meta: TensorMeta) -> None:
        self.mesh, self.placements, self.tensor_meta = mesh, placements, tensor_meta

    @property
    def device_mesh(self) -> Any:
        return self.mesh

    @property
    def shape(self) -> Any:
        return self.tensor_meta.shape

    @property
    def stride(self) -> tuple[int, ...]:
        return self.tensor_meta.stride

    @property
    def ndim(self) -> int:
        return len(self.tensor_meta.shape)

    @property
    def num_shards(self) -> int:
        """How many parts the tensor is in."""
        return math.prod(self.mesh.size(n) for n, each in enumerate(self.placements) if each.is_shard())

    def is_replicated(self) -> bool:
        """Whether every rank has the whole."""
        return all(each.is_replicate() for each in self.placements)

    def is_sharded(self) -> bool:
        """Whether a rank has only a part."""
        return any(each.is_shard() for each in self.placements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.mesh, self.placements, self.tensor_meta

    def __repr__(self) -> str:
        letters = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "bool": "b", "complex": "c"}
        name = str(self.tensor_meta.dtype).rpartition(".")[2]
        digits = "".join(each for each in name if each.isdigit())
        short = letters.get(name.rstrip("0123456789"), name) + digits
        return f"Spec({short}{list(self.shape)}({''.join(map(str, self.placements))}))"


def normalized(placements: Sequence[Placement] | None, mesh: Any, ndim: int) -> tuple[Placement, ...]:
    """Return placements with non-negative dims; `Replicate` for every dim of the mesh if none are given."""
    if placements is None:
        return (Replicate(),) * mesh.ndim
    found: list[Placement] = []
    for number, each in enumerate(placements):
        if not isinstance(each, Placement):
            raise TypeError(f"placement {number} is {type(each).__name__}: give Shard(dim), Replicate() or Partial()")
        if isinstance(each, Shard):
            dim = each.dim + ndim if each.dim < 0 else each.dim
            if not 0 <= dim < max(ndim, 1):
                raise RuntimeError(
                    f"Sharding dim {each.dim} greater than tensor ndim {ndim} for placement number {number}"
                )
            each = each if dim == each.dim else Shard(dim)
        found.append(each)
    if len(found) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`, one for each dim: got {len(found)} for "
            f"{mesh.ndim} dims"
        )
    return tuple(found)


def coordinate(mesh: Any) -> tuple[int, ...]:
    """Return this rank's coordinate in a mesh."""
    place = mesh.get_coordinate()
    if place is None:
        raise RuntimeError("this rank is not in the tensor's mesh: only ranks of the mesh can use the tensor")
    return place


def local_part(
    shape: Sequence[int], mesh: Any, placements: Sequence[Placement], place: tuple[int, ...] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and the offset of a rank's part of a tensor."""
    place = coordinate(mesh) if place is None else place
    sizes, offsets = list(shape), [0] * len(shape)
    for number, each in enumerate(placements):
        if isinstance(each, Shard):
            size, start = Shard.local_shard_size_and_offset(sizes[each.dim], mesh.size(number), place[number])
            sizes[each.dim] = size
            offsets[each.dim] += start
    return tuple(sizes), tuple(offsets)


def is_even(shape: Sequence[int], mesh: Any, placements: Sequence[Placement]) -> bool:
    """Whether all ranks' parts are equally large."""
    sizes = list(shape)
    for number, each in enumerate(placements):
        if isinstance(each, Shard):
            if sizes[each.dim] % mesh.size(number):
                return False
            sizes[each.dim] //= mesh.size(number)
    return True


def without_partial(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """Return the placements after terms are reduced."""
    return tuple([Replicate() if isinstance(each, Partial) else each for each in placements])
