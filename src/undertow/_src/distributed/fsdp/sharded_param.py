"""One parameter of a fully sharded module: this rank's shard, and the whole parameter while it is needed."""

from __future__ import annotations

import weakref
from typing import Any

from undertow._src.base import tracer
from undertow._src.base.modes import no_grad
from undertow._src.base.sites import warn
from undertow._src.distributed.dtensor.dtensor import DTensor
from undertow._src.distributed.dtensor.placements import Replicate, Shard
from undertow._src.distributed.dtensor.redistribute import _padded
from undertow._src.distributed.dtensor.spec import DTensorSpec, TensorMeta
from undertow._src.ops.join import cat
from undertow._src.tensor.core import wrap
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter

# The whole parameters of graphs whose backward has not run. Graphs keep them alive, so that programs need not.
_in_graphs: weakref.WeakValueDictionary[ShardedParam, Any] = weakref.WeakValueDictionary()
# Their arrays, each with its trace's number. They are filled again: a backward pass uses the weights of its own time.
_arrays: weakref.WeakKeyDictionary[ShardedParam, tuple[int, Any]] = weakref.WeakKeyDictionary()


class ShardedParam:
    """A parameter that is split over the ranks of a mesh, and gathered for forward and backward.

    Modules hold `sharded`, a DTensor, or `unsharded`, an ordinary parameter, while the module computes. The next
    computation uses the same ordinary parameter if a graph still has it, or hooks are registered on it.
    """

    def __init__(self, param: Any, places: list[tuple[Module, str]], name: str, mesh: Any, dim: int) -> None:
        if isinstance(param, DTensor):
            raise NotImplementedError(
                f"{name} is a DTensor: undertow's fully_shard can't split what another mesh has split. Use one mesh"
            )
        self.places, self.name, self.mesh, self.dim = places, name, mesh, dim
        self.group_dim = mesh.ndim - 1
        self.count, self.rank = mesh.size(self.group_dim), mesh.get_local_rank(self.group_dim)
        self.shape = tuple(param.shape)
        if param.dim() == 0:
            raise ValueError(
                f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel 1."
            )
        if dim and param.shape[dim] % self.count:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {dim}: {name} has {param.shape[dim]} there, for "
                f"{self.count} ranks"
            )
        self.sizes = [Shard.local_shard_size_and_offset(param.shape[dim], self.count, n)[0] for n in range(self.count)]
        placements = (*[Replicate()] * self.group_dim, Shard(dim))
        spec = DTensorSpec(mesh, placements, TensorMeta(param.shape, param.stride(), param.dtype))
        self.unsharded: Any = None
        self._kept: Any = None  # the gradient of earlier backward passes, in the dtype of the reduction
        self.is_whole = False
        with no_grad():
            start = sum(self.sizes[: self.rank])
            part = param.detach().narrow(dim, start, self.sizes[self.rank])
            part = part if part.device.type == "meta" else part.clone()
        sharded = Parameter(DTensor(part, spec, requires_grad=False), param.requires_grad)
        _keep_hooks(param, sharded, name)
        self._put(sharded)

    def _put(self, param: Any) -> None:
        """Give the parameter to its modules."""
        for module, key in self.places:
            module._parameters[key] = param

    @property
    def sharded(self) -> Any:
        """This rank's shard, read from the modules, because `to_empty` and the like replace it there."""
        if not self.is_whole:
            module, key = self.places[0]
            self._sharded = module._parameters[key]
        return self._sharded

    def part(self, dtype: Any) -> Any:
        """Return this rank's shard, padded to the size of the largest, to send to the others."""
        local = self.sharded.to_local() if dtype is None else self.sharded.to_local().to(dtype)
        return _padded(local.detach(), self.dim, self.sizes[0]).contiguous()

    def unshard(self, parts: list[Any]) -> None:
        """Give the whole parameter to the modules, from the parts of all ranks."""
        sharded = self.sharded
        whole = cat([part.narrow(self.dim, 0, size) for part, size in zip(parts, self.sizes, strict=True)], self.dim)
        if self.unsharded is None:
            self.unsharded = _in_graphs.get(self)
        epoch, array_of_graph = _arrays.pop(self, (-1, None))
        if epoch == tracer.epoch and (array := array_of_graph()) is not None and array.dtype == whole._array.dtype:
            whole = wrap(array).copy_(whole)
        if self.unsharded is None or self.unsharded.dtype is not whole.dtype:
            self.unsharded = Parameter(whole, sharded.requires_grad)
        else:
            self.unsharded.data = whole
            self.unsharded.requires_grad_(sharded.requires_grad)
        self._put(self.unsharded)
        self.is_whole = True

    def reshard(self) -> None:
        """Give the shard back to the modules, and free the whole parameter."""
        if self.is_whole:
            self._put(self._sharded)
            self.is_whole = False
            _arrays[self] = tracer.epoch, weakref.ref(self.unsharded._array)
            self.unsharded.data = self.unsharded.data.new_zeros(()).expand(self.shape)  # a shape without memory
            if self.unsharded.grad is None and not _has_hooks(self.unsharded):
                _in_graphs[self] = self.unsharded
                self.unsharded = None

    # --- gradients

    def keep_gradient(self, dtype: Any) -> None:
        """Keep the gradient of the whole parameter for a later reduction in this dtype, with those kept before."""
        if self.unsharded is None or self.unsharded.grad is None:
            return
        own, self.unsharded.grad = self.unsharded.grad.detach(), None
        if self._kept is not None:
            self._kept.add_(own)
        else:
            self._kept = own if dtype is None else own.to(dtype)

    def take_gradient(self, dtype: Any) -> list[Any] | None:
        """Remove the gradient of the whole parameter and return it as parts, one for each rank; None if there is none."""
        self.keep_gradient(dtype)
        gradient, self._kept = self._kept, None
        if gradient is None:
            return None
        parts, start = [], 0
        for size in self.sizes:
            parts.append(_padded(gradient.narrow(self.dim, start, size), self.dim, self.sizes[0]).contiguous())
            start += size
        return parts

    def deliver(self, reduced: Any) -> None:
        """Accumulate the reduced gradient of the shard. Its hooks fire, as for every leaf."""
        sharded = self.sharded
        part = reduced.narrow(self.dim, 0, self.sizes[self.rank]).to(sharded.dtype)
        sharded.backward(DTensor(part.contiguous(), sharded._spec, requires_grad=False))


def _has_hooks(param: Any) -> bool:
    """Whether hooks are registered on a parameter, or on the node that accumulates its gradient."""
    meta = param._meta
    if meta is None:
        return False
    node = None if meta.accumulator is None else meta.accumulator()
    extras = None if node is None else node._extras
    return bool(meta.hooks or meta.post_hooks or (extras is not None and (extras.pre_hooks or extras.post_hooks)))


def _keep_hooks(param: Any, sharded: Any, name: str) -> None:
    """Move the hooks of a parameter to its shard: they fire there with the shard of the reduced gradient."""
    meta = param._meta
    if meta is None:
        return
    own = sharded._get_meta()
    own.hooks, own.post_hooks = meta.hooks, meta.post_hooks
    node = None if meta.accumulator is None else meta.accumulator()
    if node is not None and node._extras is not None and (node._extras.pre_hooks or node._extras.post_hooks):
        warn(
            f"hooks on the AccumulateGrad node of {name} do not fire after fully_shard, which replaces the parameter. "
            "Register them on the node of the new parameter: they get the shard of the reduced gradient."
        )
