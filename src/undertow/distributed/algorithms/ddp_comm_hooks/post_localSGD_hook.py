"""Post-local SGD: gradients are averaged over all ranks at first, later only inside of small groups.

The parameters of the groups are then averaged every few steps: see `torch.distributed.algorithms.model_averaging`.
"""

from __future__ import annotations

from typing import Any

from undertow._src.distributed.buckets import GradBucket
from undertow._src.distributed.comm_hooks import allreduce_hook
from undertow._src.distributed.subgroups import new_subgroups
from undertow._tensor import Tensor
from undertow.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """The groups of post-local SGD, and its iteration."""

    __slots__ = ["iter", "post_local_gradient_allreduce", "process_group", "start_localSGD_iter", "subgroup"]

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Return a bucket's mean gradients: over all ranks, and from `start_localSGD_iter` on over the group or this rank."""
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        local: Future[Tensor] = Future()
        local.set_result(bucket.buffer())
        return local
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
