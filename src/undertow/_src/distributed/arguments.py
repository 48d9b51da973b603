"""The arguments of collectives: checks, descriptions for other ranks, and writing results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._src.base.sites import warn
from undertow._src.distributed.coalescing import current
from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.state import default_group, member, state
from undertow._src.distributed.work import Work
from undertow._src.engine.writes import guards, write
from undertow._src.tensor import lazy_conj
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF


def described(tensor: TensorCore) -> str:
    """Return a tensor's dtype and shape."""
    return f"{str(DTYPE_OF[tensor._array.dtype]).rpartition('.')[2]}{list(tensor._array.shape)}"


def alike(tensor: TensorCore) -> str:
    """Return the part of the description that must be equal on all ranks: dtype and number of elements."""
    return f"{str(DTYPE_OF[tensor._array.dtype]).rpartition('.')[2]} x {tensor._array.size}"


def put(tensor: TensorCore, flat: Any) -> None:
    """Write a collective's result into a tensor, unless it is there already. As in PyTorch, the version does not change."""
    storage = tensor._get_storage()
    version = storage.version
    array = tensor._array
    if type(array) is not np.ndarray or flat.__array_interface__["data"][0] != array.__array_interface__["data"][0]:
        write(tensor, flat.reshape(array.shape))
    storage.version = version


def takes_results(tensor: TensorCore) -> bool:
    """Whether a collective may write its result directly into the tensor's array."""
    return type(tensor._array) is np.ndarray and tensor._array.flags.c_contiguous and not guards and not lazy_conj.known


def check_tensor(value: Any, name: str) -> None:
    """Raise unless the value is a tensor."""
    if not isinstance(value, TensorCore):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got "
            f"{type(value)} instead."
        )


def check_tensors(values: Any, name: str) -> None:
    """Raise unless the value is a list of tensors."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, TensorCore) for value in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got "
            f"{type(values)} instead."
        )


def belonging(group: Any, op: str) -> ProcessGroup | None:
    """Return the group, or warn and return None if this process is not in it."""
    found = member(group)
    if found is None:
        rank = -1 if state.world is None else state.world.rank
        warn(f"Running {op} on global rank {rank} which does not belong to the given group.")
    return found


def ended(work: Work, async_op: bool) -> Work | None:
    """Return the handle of an async collective; wait for any other."""
    if async_op:
        return work
    manager = current()
    if manager is None:
        work.wait()
    else:
        manager.append(work)
    return None


def place_of(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str, op: str) -> int:
    """Return a root's rank in the group; it is given by its global rank or by its rank in the group."""
    if (rank is None) == (group_rank is None):
        raise ValueError(f"Must specify {name} or group_{name}, and not both")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"Group rank {group_rank} is not part of group {group.ranks}")
        return group_rank
    assert rank is not None
    if rank not in group.ranks and group is default_group():
        raise RuntimeError(f"ProcessGroupGloo::{op}: invalid root rank: {rank}. The ranks are {list(group.ranks)}")
    if rank not in group.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {group}, whose ranks are {list(group.ranks)}")
    return group.ranks.index(rank)


def run(
    group: ProcessGroup, op: str, detail: str, what: str, body: Callable[[Any], Any], async_op: bool
) -> Work | None:
    """Start a collective. Its body gets the call, writes the results and returns the tensors."""
    return ended(group.start(op, detail, what, body), async_op)


def _listed(tensor: Any) -> str:
    return ", ".join(map(str, tensor.shape))


def different_dtypes(op: str, name: str, one: Any, other: Any) -> ValueError:
    """Return the error for tensors of one call that have different dtypes."""
    return ValueError(
        f"Invalid usage of tensors with different dtypes: {op} found {one.dtype} at {name}, and {other.dtype}"
    )


def same_as(tensor: Any, others: Sequence[Any], op: str) -> None:
    """Refuse tensors that differ from a rank's own in dtype or shape."""
    for number, other in enumerate(others):
        if other._array.dtype != tensor._array.dtype:
            raise different_dtypes(op, f"index {number} of the list", other, tensor)
        if other._array.shape != tensor._array.shape:
            raise RuntimeError(
                f"ProcessGroupGloo::{op.replace('_', '')}: invalid tensor size at index {number} "
                f"(expected ({_listed(tensor)}), got ({_listed(other)}))"
            )
