"""`torch.distributed` on JAX's multi-process runtime: process groups, collectives, stores.

Nothing is imported before it is used: a program without a group pays nothing, and JAX is imported by
`init_process_group` in a world of several ranks.
"""

from __future__ import annotations

import os

from undertow._src.base.lazy import lazy_names

_HOMES = {
    "buckets": "GradBucket",
    "comm_hooks": "BuiltinCommHookType",
    "coalescing": "_coalescing_manager",
    "errors": "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError",
    "functions": "all_gather all_gather_coalesced all_gather_into_tensor all_reduce all_reduce_coalesced barrier "
    "broadcast monitored_barrier reduce",
    "groups": "ProcessGroup",
    "joining": "destroy_process_group get_backend get_rank get_world_size init_process_group is_available is_initialized",
    "messages": "P2POp batch_isend_irecv irecv isend recv recv_object_list send send_object_list",
    "objects": "all_gather_object broadcast_object_list gather_object scatter_object_list",
    "reduce_ops": "ReduceOp _make_nccl_premul_sum",
    "scattering": "all_to_all all_to_all_single gather reduce_scatter reduce_scatter_tensor scatter",
    "state": "GroupMember group",
    "stores": "FileStore HashStore PrefixStore Store",
    "subgroups": "get_global_rank get_group_rank get_node_local_rank get_pg_count get_process_group_ranks new_group "
    "new_subgroups new_subgroups_by_enumeration",
    "work": "Work",
}
_NAMES = {name: f"undertow._src.distributed.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    *_NAMES, "is_gloo_available", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available",
]  # fmt: skip


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_gloo_available() -> bool:
    """Whether Gloo is available: JAX has it."""
    return __getattr__("is_available")()


def is_nccl_available() -> bool:
    """Whether NCCL is available: no."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **_NAMES,
        **{
            name: f"undertow.distributed.{name}"
            for name in ("algorithms", "autograd", "checkpoint", "nn", "rpc", "tensor")
        },
    },
)
