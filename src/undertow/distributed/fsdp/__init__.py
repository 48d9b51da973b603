"""`torch.distributed.fsdp`: `fully_shard`, which splits parameters, gradients and optimizer state over ranks."""

from typing import Any

from undertow.distributed.fsdp._fully_shard import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
    share_comm_ctx,
)

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy", "OffloadPolicy",
    "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx",
]  # fmt: skip


class FullyShardedDataParallel:
    """The first version of fully sharded data parallelism, which undertow does not have."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "undertow has no FullyShardedDataParallel: use torch.distributed.fsdp.fully_shard(module), its successor"
        )
