"""PyTorch's collectives on tensors: each checks its arguments, and starts a job in its group's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.base.sites import warn
from undertow._src.distributed import collectives
from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.reduce_ops import ReduceOp, checked
from undertow._src.distributed.state import member, seconds, state
from undertow._src.distributed.work import Work
from undertow._src.engine.writes import write
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF


def described(tensor: TensorCore) -> str:
    """Return a tensor's dtype and shape."""
    return f"{str(DTYPE_OF[tensor._array.dtype]).rpartition('.')[2]}{list(tensor._array.shape)}"


def alike(tensor: TensorCore) -> str:
    """Return what must be equal on all ranks: dtype and number of elements."""
    return f"{str(DTYPE_OF[tensor._array.dtype]).rpartition('.')[2]} x {tensor._array.size}"


def put(tensor: TensorCore, flat: Any) -> None:
    """Write a collective's result into a tensor. As in PyTorch, its version stays."""
    storage = tensor._get_storage()
    version = storage.version
    write(tensor, flat.reshape(tensor._array.shape))
    storage.version = version


def check_tensor(value: Any, name: str) -> None:
    """Refuse what is not a tensor."""
    if not isinstance(value, TensorCore):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got "
            f"{type(value)} instead."
        )


def check_tensors(values: Any, name: str) -> None:
    """Refuse what is not a list of tensors."""
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
    work.wait()
    return None


def place_of(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    """Return the number in a group of a root that was given by its global rank or by its rank in the group."""
    if (rank is None) == (group_rank is None):
        raise ValueError(f"Must specify {name} or group_{name}, and not both")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"Group rank {group_rank} is not part of group {group.ranks}")
        return group_rank
    assert rank is not None
    if rank not in group.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {group}, whose ranks are {list(group.ranks)}")
    return group.ranks.index(rank)


def run(
    group: ProcessGroup, op: str, detail: str, what: str, body: Callable[[Any], Any], async_op: bool
) -> Work | None:
    """Start a collective whose body gets the call, writes its results and returns the tensors."""
    return ended(group.start(op, detail, what, body), async_op)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce a tensor over all ranks; every rank gets the result in it."""
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "all_reduce")
    if chosen is None:
        return None
    name, factor = checked(op, tensor, "all_reduce")

    def body(call: Any) -> list[Any]:
        put(tensor, collectives.all_reduce(chosen, call, tensor._array, name, factor))
        return [tensor]

    return run(chosen, "all_reduce", f"{name} {alike(tensor)}", described(tensor), body, async_op)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Copy the tensor of one rank into those of all others."""
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "broadcast")
    if chosen is None:
        return None
    root = place_of(chosen, src, group_src, "src")

    def body(call: Any) -> list[Any]:
        flat = collectives.broadcast(chosen, call, tensor._array, root)
        if chosen.rank() != root:
            put(tensor, flat)
        return [tensor]

    return run(chosen, "broadcast", f"from {root}, {alike(tensor)}", described(tensor), body, async_op)


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy the tensors of all ranks into a list, on every rank."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "all_gather")
    if chosen is None:
        return None
    if len(tensor_list) != chosen.size():
        raise RuntimeError(
            f"all_gather: invalid output tensor list (expected length {chosen.size()}, got {len(tensor_list)})"
        )
    _same_as(tensor, tensor_list, "all_gather")

    def body(call: Any) -> list[Any]:
        for output, flat in zip(tensor_list, collectives.all_gather(chosen, call, tensor._array), strict=True):
            put(output, flat)
        return tensor_list

    return run(chosen, "all_gather", alike(tensor), described(tensor), body, async_op)


def _same_as(tensor: Any, others: Sequence[Any], op: str) -> None:
    """Refuse tensors that differ from a rank's own in dtype or shape."""
    for number, other in enumerate(others):
        if other._array.dtype != tensor._array.dtype:
            raise RuntimeError(
                f"{op}: invalid tensor type at index {number} (expected {tensor.dtype}, got {other.dtype})"
            )
        if other._array.shape != tensor._array.shape:
            raise RuntimeError(
                f"{op}: invalid tensor size at index {number} (expected {tuple(tensor.shape)}, got {tuple(other.shape)})"
            )


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Work | None:
    """Wait until every rank of the group is here."""
    chosen = belonging(group, "barrier")
    if chosen is None:
        return None
    limit = None if timeout is None else seconds(timeout)
    return ended(chosen.start("barrier", "", "", lambda call: collectives.barrier(chosen, call), limit), async_op)
