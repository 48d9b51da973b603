"""`fully_shard`: split a module's parameters over ranks, and gather them while it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from undertow._src.distributed.fsdp.module_state import ModuleState
from undertow._src.distributed.fsdp.param_group import ParamGroup
from undertow._src.distributed.fsdp.policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from undertow._src.distributed.fsdp.sharded_param import ShardedParam
from undertow._src.distributed.state import default_group
from undertow.distributed.device_mesh import DeviceMesh, init_device_mesh
from undertow.nn.modules.container import ModuleDict, ModuleList
from undertow.nn.modules.module import Module

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle", "fully_shard",
    "register_fsdp_forward_method", "share_comm_ctx",
]  # fmt: skip

_classes: dict[type, type] = {}


class UnshardHandle:
    """A gathering of parameters in progress."""

    def wait(self) -> None:
        """Do nothing: `unshard` has gathered the parameters when it returns."""


class FSDPModule:
    """The methods that `fully_shard` adds to a module's class."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a module of the class without FSDP."""
        plain = cls.__mro__[2]
        made = plain.__new__(plain, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made

    _fsdp_state: ModuleState

    def _get_fsdp_state(self) -> ModuleState:
        return self._fsdp_state

    def _states(self, recurse: bool = True) -> Iterable[ModuleState]:
        """Return the states of this module and, with `recurse`, of the modules inside."""
        modules: Any = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        found = [module._fsdp_state for module in modules if isinstance(module, FSDPModule)]
        return list({id(state): state for state in found}.values())

    def reshard(self) -> None:
        """Free the gathered parameters of this module, which holds its shards again."""
        self._fsdp_state.group.reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters of this module."""
        self._fsdp_state.group.unshard()
        return UnshardHandle() if async_op else None

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Set whether backward reduces gradients. If not, they stay on this rank and are added to the next reduction."""
        for state in self._states(recurse):
            state.group.reduces = state.group.all_reduces = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether backward reduces gradients over replicas, on a mesh of two dims."""
        for state in self._states(recurse):
            state.group.all_reduces = requires_all_reduce

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Set whether the next backward is the last of this iteration. Here every backward waits for its collectives."""
        for state in self._states():
            state.is_last_backward = is_last_backward

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether parameters are split again after forward."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for state in self._states(recurse):
            state.reshards_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Set whether parameters are split again after backward."""
        for state in self._states(recurse):
            state.group.reshards_after_backward = reshard_after_backward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Set the divisor of the sum of the ranks' gradients."""
        self._fsdp_state.group.divide_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_all_reduce_hook(self, hook: Callable[[Any], None], *, stream: Any = None) -> None:
        """Set a function that gets this rank's reduced gradients, flat, before they are accumulated."""
        for state in self._states():
            state.group.all_reduce_hook = hook

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Check the modules to gather early. It has no effect: nothing is gathered early."""
        _check_modules(modules)

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Check the modules to gather early in backward. It has no effect: nothing is gathered early."""
        _check_modules(modules)

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Do nothing: backward always gathers parameters."""

    def set_post_optim_event(self, event: Any) -> None:
        """Do nothing: there are no streams."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Do nothing: buffers of collectives are always allocated in the same way."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Do nothing: gradients are always summed, then divided."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError(
            "FSDP does not support deepcopy. Please use state dict for serialization, or copy the module before "
            "fully_shard."
        )

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.reshard()
        return super()._apply(*args, **kwargs)  # type: ignore[misc]


def _check_modules(modules: Sequence[Any]) -> None:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"modules to prefetch must be those that fully_shard was applied to, got {type(module)}")


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008
    offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Split a module's parameters, except those that an inner `fully_shard` has split; gather them while it computes.

    The module's class becomes a subclass of `FSDPModule`. Gradients are averaged over the ranks, and every rank has its
    shard of them: `.grad` is a DTensor, as the parameter is. Hooks on a parameter get the shard of the reduced
    gradient, even if they were registered before.
    """
    modules = (module,) if isinstance(module, Module) else tuple(module)
    for each in modules:
        if type(each) in (ModuleList, ModuleDict):
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {each}")
        if isinstance(each, FSDPModule):
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once: fully_shard was applied to "
                f"{type(each).__name__} before"
            )
    if dp_mesh_dims is not None:
        raise NotImplementedError("undertow's fully_shard has no dp_mesh_dims: give the part of the mesh to shard over")
    if type(reshard_after_forward) is int and reshard_after_forward > 1:
        raise NotImplementedError(
            "undertow's fully_shard splits parameters over all ranks of the mesh or not at all after forward: "
            "reshard_after_forward is True or False"
        )
    mesh = init_device_mesh("cpu", (default_group().size(),)) if mesh is None else mesh
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    params = _params_of(modules, mesh, shard_placement_fn, ignored_params or set())
    group = ParamGroup(params, mesh, mp_policy)
    state = ModuleState(modules, group, mp_policy, reshard_after_forward)
    for each in modules:
        each._fsdp_state = state
        each.register_forward_pre_hook(state.pre_forward, prepend=True, with_kwargs=True)
        each.register_forward_hook(state.post_forward)
        each.register_state_dict_pre_hook(lambda *_: group.reshard())
        each._register_load_state_dict_pre_hook(lambda *_: group.reshard())
        each.__class__ = _class_of(type(each))
    return module


def _class_of(cls: type) -> Any:
    if cls not in _classes:
        _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__})
    return _classes[cls]


def _params_of(
    modules: tuple[Module, ...], mesh: Any, place: Callable[[Any], Any] | None, ignored: set[Any]
) -> list[ShardedParam]:
    """Return the parameters of these modules, without those of inner modules with `fully_shard`, as sharded ones."""
    found: dict[Any, list[tuple[Module, str]]] = {}
    names: dict[Any, str] = {}
    skipped = {id(param) for param in ignored}

    def visit(module: Module, prefix: str) -> None:
        if isinstance(module, FSDPModule):
            return
        for key, param in module._parameters.items():
            if param is not None and id(param) not in skipped:
                found.setdefault(param, []).append((module, key))
                names.setdefault(param, prefix + key)
        for key, child in module._modules.items():
            if child is not None and child not in visited:
                visited.add(child)
                visit(child, f"{prefix}{key}.")

    visited: set[Module] = set(modules)
    for module in modules:
        visit(module, "")
    params = []
    for param, places in found.items():
        placement = None if place is None else place(param)
        dim = 0 if placement is None else placement.dim % max(param.dim(), 1)
        params.append(ShardedParam(param, places, names[param], mesh, dim))
    return params


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Make a method gather the parameters as forward does."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)
    state = module._fsdp_state

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = state.pre_forward(module, args, kwargs)  # type: ignore[arg-type]
        return state.post_forward(module, args, method(*args, **kwargs))  # type: ignore[arg-type]

    setattr(module, method_name, wrapped)


def share_comm_ctx(modules: list[Any]) -> None:
    """Do nothing: all modules of a group already share its thread."""
    _check_modules(modules)
