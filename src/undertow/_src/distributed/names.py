"""Where PyTorch's public names of process groups are defined."""

from __future__ import annotations

_HOMES = {
    "buckets": "GradBucket",
    "coalescing": "_coalescing_manager",
    "comm_hooks": "BuiltinCommHookType",
    "debug_level": "DebugLevel get_debug_level set_debug_level set_debug_level_from_env",
    "errors": "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError",
    "functions": "all_gather all_gather_coalesced all_gather_into_tensor all_reduce all_reduce_coalesced barrier "
    "broadcast monitored_barrier reduce",
    "groups": "ProcessGroup",
    "joining": "Backend destroy_process_group get_backend get_backend_config get_default_backend_for_device get_rank "
    "get_world_size init_process_group is_available is_backend_available is_initialized",
    "messages": "P2POp batch_isend_irecv irecv isend recv recv_object_list send send_object_list",
    "objects": "all_gather_object broadcast_object_list gather_object scatter_object_list",
    "reduce_ops": "ReduceOp _make_nccl_premul_sum",
    "scattering": "all_to_all all_to_all_single gather reduce_scatter reduce_scatter_tensor scatter",
    "state": "GroupMember group _get_default_group _get_default_store _rank_not_in_group default_pg_timeout",
    "stores": "FileStore HashStore PrefixStore Store TCPStore",
    "subgroups": "get_global_rank get_group_rank get_node_local_rank get_pg_count get_process_group_ranks new_group "
    "new_subgroups new_subgroups_by_enumeration",
    "work": "Work",
}
NAMES = {name: f"undertow._src.distributed.{home}" for home, names in _HOMES.items() for name in names.split()}
# Older names of the same functions.
NAMES["_all_gather_base"] = "undertow._src.distributed.functions:all_gather_into_tensor"
NAMES["_reduce_scatter_base"] = "undertow._src.distributed.scattering:reduce_scatter_tensor"
