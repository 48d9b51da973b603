"""Changing placements on a mesh: gather parts, reduce terms, keep a part of a whole tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.distributed.dtensor.placements import Partial, Placement, Replicate, Shard
from undertow._src.distributed.dtensor.spec import coordinate
from undertow._src.distributed.functions import all_gather, all_reduce
from undertow._src.distributed.scattering import reduce_scatter
from undertow._src.ops.join import cat
from undertow._src.tensor.creation import empty_like
from undertow._src.types.dtypes import bool as bool_type
from undertow._src.types.dtypes import int32


def redistribute(
    local: Any, mesh: Any, shape: Sequence[int], source: Sequence[Placement], target: Sequence[Placement],
    into_terms: bool = False,
) -> Any:  # fmt: skip
    """Return this rank's part of a tensor under other placements. All ranks of the mesh call it.

    Parts are gathered, and terms reduced (to a part, if possible), from the last dim of the mesh to the first, since a
    later dim may split the parts of an earlier one. Then the tensor is split again, from the first to the last.
    `into_terms`: a whole tensor may become terms of a sum.
    """
    if tuple(source) == tuple(target):
        return local
    now = list(source)
    for number in reversed(range(mesh.ndim)):
        each = now[number]
        if each == target[number] and not _is_split_again(number, now, target):
            continue
        wanted = target[number]
        if isinstance(each, Partial) and isinstance(wanted, Shard) and not _waits(number, wanted, now, target):
            local, now[number] = reduced_part(local, mesh, number, each, wanted.dim), wanted
        elif isinstance(each, Partial):
            local, now[number] = reduced(local, mesh, number, each), Replicate()
        elif isinstance(each, Shard):
            local = gathered(local, mesh, number, each.dim, _size_before(shape, mesh, now, number))
            now[number] = Replicate()
    for number, wanted in enumerate(target):
        if isinstance(wanted, Shard) and now[number] != wanted:
            local, now[number] = part_of(local, mesh, number, wanted.dim), wanted
        elif into_terms and isinstance(wanted, Partial) and now[number].is_replicate():
            local, now[number] = term_of(local, mesh, number, wanted), wanted
        elif now[number] != wanted:
            raise RuntimeError(
                f"Can not redistribute from {source[number]} to {wanted}, redistributing to Partial is for internal use "
                "only: make such a tensor with DTensor.from_local"
            )
    return local


def _is_split_again(number: int, now: Sequence[Placement], target: Sequence[Placement]) -> bool:
    """Whether an earlier dim of the mesh, which splits the same dim of the tensor, changes."""
    own = now[number]
    return isinstance(own, Shard) and _waits(number, own, now, target)


def _waits(number: int, own: Shard, now: Sequence[Placement], target: Sequence[Placement]) -> bool:
    """Whether a split along a dim of the mesh can be made only after one along an earlier dim has changed."""
    return any(now[earlier] != target[earlier] and own in (now[earlier], target[earlier]) for earlier in range(number))


def _size_before(shape: Sequence[int], mesh: Any, placements: Sequence[Placement], number: int) -> int:
    """Return this rank's size of the dim that a dim of the mesh splits, after the earlier dims have split it."""
    own, place = placements[number], coordinate(mesh)
    assert isinstance(own, Shard)
    size = shape[own.dim]
    for earlier in range(number):
        if placements[earlier] == own:
            size = Shard.local_shard_size_and_offset(size, mesh.size(earlier), place[earlier])[0]
    return size


def gathered(local: Any, mesh: Any, number: int, dim: int, size: int) -> Any:
    """Return the whole of a tensor that is split along a dim of the mesh."""
    count = mesh.size(number)
    if count == 1:
        return local
    sizes = [Shard.local_shard_size_and_offset(size, count, rank)[0] for rank in range(count)]
    padded = _padded(local.detach(), dim, sizes[0]).contiguous()
    parts = [empty_like(padded) for _ in range(count)]
    all_gather(parts, padded, mesh.get_group(number))
    return cat([part.narrow(dim, 0, length) for part, length in zip(parts, sizes, strict=True)], dim)


def _padded(local: Any, dim: int, size: int) -> Any:
    """Return a part, padded to the size of the largest."""
    if local.shape[dim] == size:
        return local
    rest = list(local.shape)
    rest[dim] = size - local.shape[dim]
    return cat([local, local.new_zeros(rest)], dim)


def part_of(local: Any, mesh: Any, number: int, dim: int) -> Any:
    """Return this rank's part of a tensor that is whole along a dim of the mesh."""
    size, start = Shard.local_shard_size_and_offset(local.shape[dim], mesh.size(number), coordinate(mesh)[number])
    return local.narrow(dim, start, size).clone()


def reduced(local: Any, mesh: Any, number: int, partial: Partial) -> Any:
    """Return the reduction of the ranks' terms along a dim of the mesh."""
    logical = local.dtype is bool_type
    term = partial.before(local.detach().to(int32) if logical else local.detach()).contiguous().clone()
    all_reduce(term, partial.op, mesh.get_group(number))
    total = partial.after(term)
    return total.to(bool_type) if logical else total


def reduced_part(local: Any, mesh: Any, number: int, partial: Partial, dim: int) -> Any:
    """Return this rank's part of the reduction of the ranks' terms along a dim of the mesh."""
    count, length = mesh.size(number), local.shape[dim]
    if local.dtype is bool_type or count == 1:
        return part_of(reduced(local, mesh, number, partial), mesh, number, dim)
    term = partial.before(local.detach())
    places = [Shard.local_shard_size_and_offset(length, count, rank) for rank in range(count)]
    parts = [_padded(term.narrow(dim, start, size), dim, places[0][0]).contiguous() for size, start in places]
    own = empty_like(parts[0])
    reduce_scatter(own, parts, partial.op, mesh.get_group(number))
    return partial.after(own.narrow(dim, 0, places[coordinate(mesh)[number]][0]).contiguous())


def term_of(local: Any, mesh: Any, number: int, partial: Partial) -> Any:
    """Return this rank's term of a tensor that is whole along a dim of the mesh."""
    if partial.reduce_op in ("avg", "max", "min"):
        return local
    if type(partial) is not Partial or partial.reduce_op != "sum":
        raise RuntimeError(f"a whole tensor can't become terms of {partial}")
    return local / mesh.size(number)
