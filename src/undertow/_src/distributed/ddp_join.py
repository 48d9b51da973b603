"""The part of a rank without data while others train a `DistributedDataParallel` model."""

from __future__ import annotations

from typing import Any

from undertow._src.distributed.join import JoinHook


class DDPJoinHook(JoinHook):
    """Answers the collectives of a forward and a backward, with zeros for gradients."""

    def __init__(self, ddp: Any, divide_by_initial_world_size: bool) -> None:
        self.ddp = ddp
        ddp.reducer.divides_by_all = divide_by_initial_world_size

    def main_hook(self) -> None:
        ddp = self.ddp
        ddp.reducer.rebuild_buckets()
        if ddp._syncs_buffers():
            ddp._sync_buffers(is_joined=True)
        ddp.require_forward_param_sync = ddp._any_rank_syncs(is_joined=True)
        if ddp.require_forward_param_sync:
            ddp.reducer.reduce_zeros()

    def post_hook(self, is_last_joiner: bool) -> None:
        self.ddp._sync_states(self.ddp._last_rank(is_last_joiner))
