"""`torch.distributed`, as in a build without it: there is no process group, and none can be created.

Queries such as `is_available()` work; communication raises PyTorch's errors.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

from undertow._src.base.lazy import lazy_names

__all__ = [
    "ProcessGroup", "ReduceOp", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "barrier", "broadcast", "broadcast_object_list", "destroy_process_group", "gather", "get_backend", "get_rank",
    "get_world_size", "group", "init_process_group", "irecv", "is_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "isend", "new_group", "recv", "reduce", "reduce_scatter", "scatter", "send",
]  # fmt: skip


def is_available() -> bool:
    """Whether process groups are supported: no."""
    return False


def is_initialized() -> bool:
    """Whether this process is in a group."""
    return False


def is_torchelastic_launched() -> bool:
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_available


class ProcessGroup:
    """A process group. None can be created."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        init_process_group()


class ReduceOp(Enum):
    """How values of several processes are reduced."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)


class group:
    """Process groups by name."""

    WORLD = None


def init_process_group(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: undertow has no process groups."""
    raise RuntimeError(
        "undertow has no torch.distributed.init_process_group: torch.distributed.is_available() is False"
    )


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


all_gather = all_gather_into_tensor = all_gather_object = all_reduce = all_to_all = barrier = broadcast = _refuse
broadcast_object_list = gather = get_backend = get_rank = get_world_size = irecv = isend = new_group = _refuse
recv = reduce = reduce_scatter = scatter = send = gather_object = scatter_object_list = monitored_barrier = _refuse
all_to_all_single = reduce_scatter_tensor = get_process_group_ranks = get_global_rank = get_group_rank = _refuse


def destroy_process_group(group: Any = None) -> NoReturn:
    """Raise: there is no group."""
    raise AssertionError("Process group cannot be None")


__getattr__, __dir__ = lazy_names(
    __name__, {name: f"undertow.distributed.{name}" for name in ("autograd", "checkpoint", "nn", "rpc", "tensor")}
)
