"""The parameters of one call of `fully_shard`: gathered by one collective, their gradients reduced by another."""

from __future__ import annotations

from typing import Any

from undertow._src.base.modes import no_grad
from undertow._src.distributed.fsdp.policies import MixedPrecisionPolicy
from undertow._src.distributed.fsdp.sharded_param import ShardedParam
from undertow._src.distributed.functions import all_gather_coalesced, all_reduce
from undertow._src.distributed.reduce_ops import ReduceOp
from undertow._src.distributed.scattering import reduce_scatter
from undertow._src.ops.join import cat
from undertow._src.tensor.creation import empty_like


class ParamGroup:
    """Parameters that are gathered and whose gradients are reduced together."""

    def __init__(self, params: list[ShardedParam], mesh: Any, policy: MixedPrecisionPolicy) -> None:
        self.params, self.mesh, self.policy = params, mesh, policy
        self.shards = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.reduces = self.all_reduces = True  # whether the next backward communicates
        self.reshards_after_backward = True
        self.divide_factor: float | None = None
        self.all_reduce_hook: Any = None
        self.waits = False  # for the end of a backward pass
        self._unfinished: dict[ShardedParam, Any] = {}  # sums over the shards, not yet over the replicas

    @property
    def is_whole(self) -> bool:
        return bool(self.params) and self.params[0].is_whole

    def unshard(self) -> None:
        """Gather the parameters and give them to the modules."""
        if self.is_whole or not self.params:
            return
        dtype = self.policy.param_dtype
        with no_grad():
            own = [param.part(dtype if param.sharded.is_floating_point() else None) for param in self.params]
            for param, part in zip(self.params, own, strict=True):
                if part.device.type == "meta":
                    raise RuntimeError(
                        f"{param.name} is on the meta device: call to_empty(device=...) and initialize it before forward"
                    )
            parts = [[empty_like(each) for each in own] for _ in range(self.shards.size())]
            all_gather_coalesced(parts, own, self.shards)
            for place, param in enumerate(self.params):
                param.unshard([of_rank[place] for of_rank in parts])

    def reshard(self) -> None:
        """Give the shards back to the modules."""
        for param in self.params:
            param.reshard()

    def post_backward(self) -> None:
        """Reduce the gradients of this backward pass, and free the gathered parameters."""
        self.waits = False
        taken: list[tuple[ShardedParam, list[Any]]] = []
        for param in self.params:
            if not self.reduces:
                param.keep_gradient(self.policy.reduce_dtype)
            elif (parts := param.take_gradient(self.policy.reduce_dtype)) is not None:
                taken.append((param, parts))
        if self.reshards_after_backward:
            self.reshard()
        if taken:
            with no_grad():
                reduced = self._reduced(taken)
            for param, gradient in reduced:
                param.deliver(gradient)

    def _reduced(self, gradients: list[tuple[ShardedParam, list[Any]]]) -> list[tuple[ShardedParam, Any]]:
        """Return this rank's part of the mean of each gradient; none while the replicas are not reduced over."""
        found: dict[ShardedParam, Any] = {}
        for dtype in {parts[0].dtype: None for _, parts in gradients}:
            alike = [(param, parts) for param, parts in gradients if parts[0].dtype is dtype]
            rows = [cat([parts[rank].reshape(-1) for _, parts in alike]) for rank in range(self.shards.size())]
            own = empty_like(rows[0])
            reduce_scatter(own, rows, ReduceOp.SUM, self.shards)
            start = 0
            for param, parts in alike:
                shape = parts[0].shape
                found[param] = own[start : start + shape.numel()].view(shape)
                start += shape.numel()
                if param in self._unfinished:
                    found[param] += self._unfinished.pop(param)
            count = self.shards.size()
            if self.replicas is not None:
                if not self.all_reduces:
                    self._unfinished |= {param: found.pop(param) for param, _ in alike}
                    continue
                all_reduce(own, ReduceOp.SUM, self.replicas)
                count *= self.replicas.size()
            own /= count if self.divide_factor is None else self.divide_factor
            if self.all_reduce_hook is not None:
                self.all_reduce_hook(own)
        return [(param, found[param]) for param, _ in gradients if param in found]
