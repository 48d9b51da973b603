"""`ZeroRedundancyOptimizer`: every rank keeps the state of some parameters, updates these, and sends them to the others."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

from undertow._src.base.modes import enable_grad, no_grad
from undertow._src.distributed.functions import broadcast
from undertow._src.distributed.join import Join, Joinable, JoinHook
from undertow._src.distributed.objects import broadcast_object_list, gathered_objects
from undertow._src.distributed.state import default_group
from undertow._src.distributed.subgroups import get_global_rank
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import empty
from undertow.optim.optimizer import Optimizer
from undertow.serialization import load, save

__all__ = ["ZeroRedundancyOptimizer"]


class _ZeROJoinHook(JoinHook):
    """Steps on a rank without data, because it updates parameters of the other ranks."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        if not isinstance(zero, ZeroRedundancyOptimizer):
            raise AssertionError("ZeRO join hook requires passing in a ZeroRedundancyOptimizer instance as the state")
        self.zero = zero

    def main_hook(self) -> None:
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is split over the ranks of a group, parameter by parameter.

    Each parameter is updated on one rank, and sent to the others after the update. Gradients must be equal on all
    ranks: use it with `DistributedDataParallel`. `param_groups` shows all parameters, `optim` is this rank's optimizer.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        params = _checked(params)
        if overlap_with_ddp:
            raise NotImplementedError(
                "undertow's ZeroRedundancyOptimizer has no overlap_with_ddp: the hooks that step during DDP's backward are "
                "not built. Leave it out; the result is the same."
            )
        Joinable.__init__(self)
        self._ready = False
        Optimizer.__init__(self, params, defaults)
        self._optim_defaults, self._optim_constructor = defaults, optimizer_class
        self.process_group = default_group() if process_group is None else process_group
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self.global_rank = get_global_rank(self.process_group, self.rank)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._overlap_with_ddp = False
        self._all_state_dicts: list[Any] = []
        self._buckets: list[tuple[int, Any]] = []
        self._make_local()
        self.initialized = self._ready = True

    def _make_local(self) -> None:
        """Make this rank's optimizer and, with `parameters_as_bucket_view`, the buckets that parameters are views of."""
        self.optim: Any = self._optim_constructor(self._partition_parameters()[self.rank], **self._optim_defaults)
        _copy_options(self.optim.param_groups, self.param_groups)
        self._build_buckets()

    def _partition_parameters(self) -> list[list[dict[str, Any]]]:
        """Return the parameter groups of each rank: large parameters first, each to the rank with the fewest elements."""
        parts: list[list[dict[str, Any]]] = [[] for _ in range(self.world_size)]
        loads = [0] * self.world_size
        for group in self.param_groups:
            shares: list[list[Any]] = [[] for _ in range(self.world_size)]
            for param in sorted(group["params"], key=lambda each: each.numel(), reverse=True):
                owner = loads.index(min(loads))
                shares[owner].append(param)
                loads[owner] += param.numel()
            for part, share in zip(parts, shares, strict=True):
                part.append({**group, "params": share})
        return parts

    @property
    def _owners(self) -> dict[Any, int]:
        """The rank in the group that updates each parameter."""
        return {
            param: rank
            for rank, groups in enumerate(self._partition_parameters())
            for group in groups
            for param in group["params"]
        }

    def _build_buckets(self) -> None:
        """Put the parameters of each rank and dtype into one buffer, which is sent as a whole."""
        self._buckets = []
        if not self.parameters_as_bucket_view:
            return
        shares: dict[tuple[int, Any, Any], list[Any]] = {}
        for param, owner in self._owners.items():
            if param.requires_grad:
                shares.setdefault((owner, param.dtype, param.device), []).append(param)
        for (owner, dtype, device), share in shares.items():
            bucket = empty(sum(param.numel() for param in share), dtype=dtype, device=device)
            start = 0
            for param in share:
                place = bucket[start : start + param.numel()].view(param.shape)
                place.copy_(param.detach())
                param.data = place
                start += param.numel()
            self._buckets.append((owner, bucket))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters; each rank updates some of them."""
        super().add_param_group(param_group)
        if self._ready:
            self.optim.add_param_group(self._partition_parameters()[self.rank][-1])
            self._build_buckets()

    # --- stepping

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this rank's parameters, then receive those of the other ranks."""
        Join.notify_join_context(self)
        _copy_options(self.param_groups, self.optim.param_groups)
        if closure is None:
            loss = self.optim.step(**kwargs)
        else:
            with enable_grad():
                loss = self.optim.step(closure=closure, **kwargs)
        _copy_options(self.optim.param_groups, self.param_groups)
        self._send_params()
        return loss

    def _send_params(self) -> None:
        """Send each parameter from the rank that updates it to all others."""
        with no_grad():
            sent = self._buckets or [(owner, param.detach()) for param, owner in self._owners.items()]
            works = [
                broadcast(tensor, group=self.process_group, async_op=True, group_src=owner) for owner, tensor in sent
            ]
            if self._buckets:
                works += [
                    broadcast(param.detach(), group=self.process_group, async_op=True, group_src=owner)
                    for param, owner in self._owners.items()
                    if not param.requires_grad
                ]
            for work in works:
                assert work is not None
                work.wait()

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook that steps on a rank without data."""
        return _ZeROJoinHook(self)

    @property
    def join_device(self) -> Any:
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    # --- state

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all ranks on one rank, for its `state_dict`. All ranks call it."""
        _copy_options(self.param_groups, self.optim.param_groups)
        self._all_state_dicts = []
        for rank in range(self.world_size):
            given: list[Any] = [_packed(self.optim.state_dict()) if rank == self.rank else None]
            broadcast_object_list(given, group=self.process_group, group_src=rank)
            if self.rank == to:
                self._all_state_dicts.append(
                    self.optim.state_dict() if rank == self.rank else load(io.BytesIO(given[0]))
                )

    def _consolidate_everywhere(self) -> None:
        """Collect the state of all ranks on each of them."""
        _copy_options(self.param_groups, self.optim.param_groups)
        packed = gathered_objects(self.process_group, "optimizer state", _packed(self.optim.state_dict()))
        self._all_state_dicts = [load(io.BytesIO(each)) for each in packed]

    def state_dict(self) -> dict[str, Any]:
        """Return the state that `consolidate_state_dict` collected, numbered as in an ordinary optimizer."""
        if not self._all_state_dicts:
            raise RuntimeError(
                f"Optimizer state has not been consolidated on this rank ({self.rank}): call "
                "consolidate_state_dict(to=...) on all ranks before state_dict() on that one."
            )
        whole = super().state_dict()
        numbers = self._numbers
        for groups, own in zip(self._partition_parameters(), self._all_state_dicts, strict=True):
            for group, numbered in zip(groups, own["param_groups"], strict=True):
                for param, number in zip(group["params"], numbered["params"], strict=True):
                    if number in own["state"]:
                        whole["state"][numbers[param]] = own["state"][number]
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    @property
    def _numbers(self) -> dict[Any, int]:
        """The number of each parameter in a state dict."""
        params = [param for group in self.param_groups for param in group["params"]]
        return {param: number for number, param in enumerate(params)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a whole state: every rank keeps the part of its own parameters."""
        numbers, owners = self._numbers, self._owners
        mine = {number: owners[param] == self.rank for param, number in numbers.items()}
        kept = {number: value for number, value in state_dict["state"].items() if mine.get(number)}
        super().load_state_dict({**state_dict, "state": kept})
        for param in owners:
            if param in self.state:
                self.optim.state[param] = self.state[param]
            elif numbers[param] in state_dict["state"]:
                self.state[param] = None  # as on PyTorch, where another rank has the state
        _copy_options(self.param_groups, self.optim.param_groups)


def _packed(state: dict[str, Any]) -> bytes:
    data = io.BytesIO()
    save(state, data)
    return data.getvalue()


def _copy_options(source: Iterable[dict[str, Any]], target: Iterable[dict[str, Any]]) -> None:
    """Copy the options of parameter groups."""
    for one, other in zip(source, target, strict=True):
        other.update({key: value for key, value in one.items() if key != "params"})


def _checked(params: Any) -> list[Any]:
    """Return parameters or groups as a list; raise for anything else."""
    message = f"`params` argument should be an iterable of Tensors or dicts, but got {type(params)}"
    if isinstance(params, TensorCore):
        raise TypeError(message)
    try:
        listed = list(params)
    except TypeError:
        raise TypeError(message) from None
    if not listed:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if not (all(isinstance(each, TensorCore) for each in listed) or all(isinstance(each, dict) for each in listed)):
        raise TypeError("`params` argument should be tensors only, or dicts only")
    for each in listed:
        if isinstance(each, dict) and "params" not in each:
            raise ValueError("Each parameter group passed-in via `params` must have a 'params' key")
    return listed
