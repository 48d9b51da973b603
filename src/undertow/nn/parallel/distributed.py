"""`DistributedDataParallel`: a model that averages its gradients over the ranks of a process group."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from undertow._src.base import tracer
from undertow._src.base.modes import is_grad_enabled, no_grad
from undertow._src.base.sites import warn
from undertow._src.distributed import traced_iteration
from undertow._src.distributed.arguments import put
from undertow._src.distributed.buckets import SMALL, GradBucket, by_dtype, flattened
from undertow._src.distributed.collectives import gather_bytes
from undertow._src.distributed.ddp_join import DDPJoinHook
from undertow._src.distributed.functions import all_gather, all_reduce, broadcast
from undertow._src.distributed.join import Join, Joinable
from undertow._src.distributed.reducer import Reducer
from undertow._src.distributed.state import default_group
from undertow._src.engine.engine import queue_callback
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.from_data import tensor as new_tensor
from undertow._src.types.dtypes import int32
from undertow.autograd.function import Function
from undertow.nn.modules.batchnorm import SyncBatchNorm
from undertow.nn.modules.module import Module
from undertow.nn.modules.sparse import Embedding, EmbeddingBag
from undertow.nn.parameter import is_lazy

__all__ = ["DistributedDataParallel"]

_MB = 1024 * 1024
_DEFAULT_CAP_MB = 25


class _DDPSink(Function):
    """The identity on a forward's outputs. Its backward comes before that of all layers."""

    @staticmethod
    def forward(ctx: Any, reducer: Any, *outputs: Any) -> Any:
        ctx.reducer = reducer
        ctx.set_materialize_grads(False)
        return tuple([output.clone() for output in outputs])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.reducer is not None:
            queue_callback(ctx.reducer.reduce_all)
        return None, *grads


class DistributedDataParallel(Module, Joinable):
    """A model on every rank of a group, with equal parameters and gradients that are averaged in the backward pass.

    Rank 0's parameters and buffers are copied to all ranks when the model is wrapped, and its buffers again before each
    forward. Hooks on parameters see this rank's gradients; `.grad` holds the mean when `backward` returns.
    """

    _active_ddp_module: Any = None

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        for name, value in (
            ("mixed_precision", mixed_precision),
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
        ):
            if value is not None:
                raise NotImplementedError(f"undertow's DistributedDataParallel has no {name} yet")
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            self.device_mesh = device_mesh
            process_group = device_mesh.get_group(mesh_dim=0)
        self.process_group = default_group() if process_group is None else process_group
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.module = module
        self._check_module()
        self.dim = dim
        self.device_ids: list[Any] | None = None
        self.output_device: Any = None
        self._take_devices(device_ids, output_device)
        if check_reduction:
            warn(
                "The `check_reduction` argument in `DistributedDataParallel` is deprecated and does nothing.",
                FutureWarning,
            )
        if broadcast_buffers is not None and forward_sync_buffers is None:
            forward_sync_buffers = broadcast_buffers
        self.forward_sync_buffers = True if forward_sync_buffers is None else forward_sync_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, False
        self.gradient_as_bucket_view, self.mixed_precision = gradient_as_bucket_view, None
        self.skip_all_reduce_unused_params, self.batched_grad_copy = skip_all_reduce_unused_params, batched_grad_copy
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.is_multi_device_module = False
        self.broadcast_bucket_size = 250 * _MB
        self.bucket_bytes_cap_default = bucket_cap_mb is None and not bucket_cap_mb_list
        self.bucket_bytes_cap_list = [int(cap * _MB) for cap in bucket_cap_mb_list or ()]
        cap = (
            max(bucket_cap_mb_list)
            if bucket_cap_mb_list
            else _DEFAULT_CAP_MB
            if bucket_cap_mb is None
            else bucket_cap_mb
        )
        self.bucket_bytes_cap = int(cap * _MB)
        self._assign_buffers()
        if init_sync:
            self._check_same_model()
            self._sync_states(without_buffers=broadcast_buffers is False and forward_sync_buffers is False)
        self._make_reducer(static_graph)

    # --- construction

    def _check_module(self) -> None:
        params = [param for _, param in self.module.named_parameters()]
        if not any(param.requires_grad for param in params):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module has no parameter that requires a gradient."
            )
        if any(is_lazy(param) for param in params):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with `DistributedDataParallel`: call the module once, "
                "which gives its lazy parameters a shape, before it is wrapped."
            )

    def _take_devices(self, device_ids: Sequence[Any] | None, output_device: Any) -> None:
        """Accept the devices of a module on one GPU; a module on the CPU has none."""
        devices = {param.device for _, param in self.module.named_parameters()}
        self.device = next(iter(devices))
        self.device_type = self.device.type
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if not device_ids or len(devices) > 1 or self.device_type == "cpu":
            if device_ids:
                raise ValueError(
                    "DistributedDataParallel device_ids and output_device arguments only work with a module on one GPU: "
                    f"got device_ids {device_ids}, output_device {output_device}, and module parameters {devices}."
                )
            return
        self.device_ids = list(device_ids)
        self.output_device = device_ids[0] if output_device is None else output_device

    def _buffers_to_sync(self) -> dict[str, Any]:
        named = self.module.named_buffers()
        return {name: buffer for name, buffer in named if name not in self.parameters_to_ignore}

    def _assign_buffers(self) -> None:
        self.named_module_buffers = self._buffers_to_sync()
        self.modules_buffers = list(self.named_module_buffers.values())

    def _reduced_parameters(self) -> tuple[list[Any], list[str], list[bool]]:
        """Return the parameters to reduce, each once, with its name and whether its gradient is sparse."""
        found: dict[int, tuple[Any, str, bool]] = {}
        for prefix, module in self.module.named_modules():
            is_sparse = isinstance(module, (Embedding, EmbeddingBag)) and module.sparse
            for name, param in module.named_parameters(recurse=False):
                path = f"{prefix}.{name}" if prefix else name
                if param.requires_grad and path not in self.parameters_to_ignore:
                    found.setdefault(id(param), (param, path, is_sparse))
        params, names, sparse = zip(*found.values(), strict=True)
        return list(params), list(names), list(sparse)

    def _check_same_model(self) -> None:
        """Refuse a model that has other parameters than on other ranks, on every rank."""
        params, names, _ = self._reduced_parameters()
        mine = json.dumps(
            [[name, list(param.shape), str(param.dtype)] for name, param in zip(names, params, strict=True)]
        )
        group = self.process_group
        work = group.start(
            "all_gather", "parameters", "the shapes of a model", lambda call: gather_bytes(group, call, mine.encode())
        )
        models = [json.loads(each) for each in work.result()]
        for rank, model in enumerate(models):
            if len(model) != len(models[0]):
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but it has {len(models[0])} parameters on rank 0, and "
                    f"{len(model)} on rank {rank}."
                )
            for number, (first, other) in enumerate(zip(models[0], model, strict=True)):
                if first[1:] != other[1:]:
                    raise RuntimeError(
                        f"DDP expects same model across all ranks, but parameter {number} is {first[0]} of shape "
                        f"{first[1]} and {first[2]} on rank 0, and {other[0]} of shape {other[1]} and {other[2]} on "
                        f"rank {rank}."
                    )

    def _sync_states(self, root: int = 0, without_buffers: bool = False) -> None:
        """Copy a rank's parameters and buffers to all ranks."""
        tensors = [
            param.detach() for name, param in self.module.named_parameters() if name not in self.parameters_to_ignore
        ]
        buffers = [] if without_buffers else [buffer.detach() for buffer in self.modules_buffers]
        self._broadcast(tensors + buffers, root)

    def _broadcast(self, tensors: Sequence[Any], root: int) -> None:
        with no_grad():
            for alike in by_dtype(tensors):
                flat = flattened(alike)
                broadcast(flat, group=self.process_group, group_src=root)
                at = 0
                for each in alike:
                    put(each, flat[at : at + each.numel()]._array)
                    at += each.numel()

    def _make_reducer(self, static_graph: bool) -> None:
        self.static_graph = static_graph
        self._sent_to_end = False  # of a static graph: whether the first backward's end will reduce
        limits = self.bucket_bytes_cap_list or [self.bucket_bytes_cap]
        params, names, sparse = self._reduced_parameters()
        self.reducer = Reducer(
            params, names, sparse, self.process_group,
            [SMALL, *limits] if self.bucket_bytes_cap_default else limits,
            first_limits=self.bucket_bytes_cap_list or [1 << 62],  # all gradients of a dtype together
            find_unused=self.find_unused_parameters, static_graph=static_graph, as_views=self.gradient_as_bucket_view,
            skip_unused=self.skip_all_reduce_unused_params,
        )  # fmt: skip

    def _set_static_graph(self) -> None:
        """Promise that all iterations use the same parameters in the same way."""
        if self.static_graph:
            warn("You've set static_graph to be True already.")
            return
        if self.reducer.iterations:
            raise RuntimeError("_set_static_graph() has to be called before the first forward.")
        hook, state = self.reducer.comm_hook, self.reducer.comm_state
        self._make_reducer(True)
        self.reducer.comm_hook, self.reducer.comm_state = hook, state

    def __getstate__(self) -> dict[str, Any]:
        state = copy.copy(self.__dict__)
        for name in ("process_group", "reducer", "_join_config"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        static_graph = state.pop("static_graph", False)
        super().__setstate__(state)
        self.process_group = default_group()
        Joinable.__init__(self)
        self._assign_buffers()
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._make_reducer(static_graph)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Any) -> None:
        """Leave parameters and buffers, given by name, alone when the module is wrapped."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    @property
    def broadcast_buffers(self) -> bool:
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool) -> None:
        self.forward_sync_buffers = value

    # --- forward

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Keep the gradients of forwards in this block local. The next forward after it averages what has gathered."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        self._before_forward()
        outputs = self.module(*inputs, **kwargs)
        return self._after_forward(outputs)

    def _before_forward(self) -> None:
        if tracer.is_alone:
            return
        if tracer.here() is not None:
            if self._join_config.enable:
                tracer.running().collectives.refuse(
                    "join() around a compiled step of DistributedDataParallel. Give all ranks equally many batches "
                    "(DistributedSampler does), or use compile(step, fallback='eager'), which runs it without a program"
                )
            self.reducer.refuse_unfinished()
            if self._syncs_buffers():
                self._broadcast([buffer.detach() for buffer in self._buffers_to_sync().values()], 0)
            return
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        if syncs:
            self.reducer.prepare_for_forward()
        notified = Join.notify_join_context(self)
        if notified is not None:
            self.reducer.joining = notified
        if is_grad_enabled():
            self.reducer.rebuild_buckets()
        if self._syncs_buffers():
            self._sync_buffers()
        if self._join_config.enable:
            self._any_rank_syncs(is_joined=False)

    def _after_forward(self, outputs: Any) -> Any:
        if tracer.is_alone:
            self.reducer.was_local = is_grad_enabled()
            return outputs
        if not (is_grad_enabled() and self.require_backward_grad_sync):
            self.require_forward_param_sync = False
            if tracer.here() is None:
                self.reducer.was_local = is_grad_enabled()
            elif is_grad_enabled():
                traced_iteration.begin(self.reducer, is_local=True)
            return outputs
        self.require_forward_param_sync = True
        if tracer.here() is not None:
            traced_iteration.begin(self.reducer, _tensors_in(outputs))
            return outputs
        searches = self.find_unused_parameters and not self.static_graph
        self.reducer.prepare_for_backward(_tensors_in(outputs) if searches else ())
        if searches or (self.static_graph and not self._sent_to_end):
            reducer = self.reducer if self.static_graph else None
            self._sent_to_end = True
            sent = [tensor for tensor in _tensors_in(outputs) if tensor.grad_fn is not None]
            if sent:
                made = dict(zip(map(id, sent), _DDPSink.apply(reducer, *sent), strict=True))
                outputs = _replaced(outputs, made)
        return outputs

    def _syncs_buffers(self) -> bool:
        return self.require_forward_param_sync and self.forward_sync_buffers and bool(self.modules_buffers)

    def _sync_buffers(self, is_joined: bool = False) -> None:
        """Copy a rank's buffers to all ranks: rank 0's, or in a join those of the last rank that still trains."""
        self._assign_buffers()
        root = self._last_rank(not is_joined) if self._join_config.enable or is_joined else 0
        self._broadcast([each.detach() for each in self.modules_buffers], root)

    def train(self, mode: bool = True) -> DistributedDataParallel:
        super().train(mode)
        return self

    # --- joins: ranks with less data

    def _any_rank_syncs(self, is_joined: bool) -> bool:
        flag = new_tensor([int(not is_joined and self.require_backward_grad_sync)], dtype=int32)
        all_reduce(flag, group=self.process_group)
        return bool(flag.item())

    def _last_rank(self, is_here: bool) -> int:
        """Return the highest rank of those that say they are here."""
        rank = new_tensor([self.process_group.rank() if is_here else -1], dtype=int32)
        gathered = [rank.clone() for _ in range(self.process_group.size())]
        all_gather(gathered, rank, group=self.process_group)
        return max(int(each.item()) for each in gathered)

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """Train on ranks that have different numbers of batches: a rank without data takes part with zeros."""
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> DDPJoinHook:
        """Return what a rank without data does in each iteration of the others, and at the end."""
        return DDPJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        return self.device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    # --- communication hooks

    def register_comm_hook(self, state: object, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Reduce each bucket by `hook(state, bucket)`, which returns a future of the flat tensor for `.grad`."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        signature = inspect.signature(hook)
        annotation = signature.parameters["bucket"].annotation
        is_bucket = annotation is GradBucket or str(annotation).rpartition(".")[2] == "GradBucket"
        if annotation is not inspect.Parameter.empty and not is_bucket:
            raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
        returned = signature.return_annotation
        if returned is not inspect.Signature.empty and "Future" not in str(returned):
            raise ValueError("Communication hook: return annotation should be torch.futures.Future[torch.Tensor].")
        self._set_comm_hook(state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        self._set_comm_hook(self.process_group, comm_hook_type.hook)

    def _set_comm_hook(self, state: object, hook: Callable[[Any, GradBucket], Any]) -> None:
        if self.reducer.comm_hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.comm_hook, self.reducer.comm_state = hook, state

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Return what is known of this wrapper, by PyTorch's names."""
        reducer = self.reducer
        return {
            "world_size": self.process_group.size(), "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__, "iteration": reducer.iterations,
            "bucket_cap_bytes": self.bucket_bytes_cap, "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view), "static_graph": int(self.static_graph),
            "broadcast_buffers": int(self.forward_sync_buffers), "backend_name": "gloo",
            "has_rebuilt_buckets": int(reducer.is_rebuilt), "num_parameter_tensors": len(reducer.params),
            "total_parameter_size_bytes": sum(p.numel() * p.element_size() for p in reducer.params),
            "has_sync_bn": int(any(isinstance(each, SyncBatchNorm) for each in self.module.modules())),
            "bucket_sizes": ", ".join(str(sum(b.sizes) * b.params[0].element_size()) for b in reducer.buckets),
        }  # fmt: skip


def _tensors_in(value: Any) -> list[Any]:
    """Return the tensors in nested containers."""
    if isinstance(value, TensorCore):
        return [value]
    if isinstance(value, (list, tuple)):
        return [found for part in value for found in _tensors_in(part)]
    if isinstance(value, dict):
        return [found for part in value.values() for found in _tensors_in(part)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [found for field in dataclasses.fields(value) for found in _tensors_in(getattr(value, field.name))]
    return []


def _replaced(value: Any, made: dict[int, Any]) -> Any:
    """Return nested containers with some of their tensors replaced."""
    if isinstance(value, TensorCore):
        return made.get(id(value), value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_replaced(part, made) for part in value])
    if isinstance(value, (list, tuple)):
        return type(value)([_replaced(part, made) for part in value])
    if isinstance(value, dict):
        changed = copy.copy(value)
        for key, part in value.items():
            changed[key] = _replaced(part, made)
        return changed
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        other: Any = copy.copy(value)
        for field in dataclasses.fields(value):
            setattr(other, field.name, _replaced(getattr(value, field.name), made))
        return other
    return value
