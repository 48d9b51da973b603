"""State dicts keyed by the model's parameter names, for optimizers too.

An optimizer's own state dict numbers the parameters. Here each has its name in the model, without the parts that
`DistributedDataParallel` and compiled modules add. Distributed tensors stay distributed, unless the full state is asked
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from undertow._src.base.tree import map_leaves
from undertow._src.distributed.dtensor.dtensor import DTensor
from undertow._src.distributed.dtensor.making import distribute_tensor
from undertow._src.distributed.functions import broadcast
from undertow._src.distributed.joining import get_rank, is_initialized
from undertow._src.distributed.objects import broadcast_object_list
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import empty, zeros_like
from undertow._src.types import dtypes
from undertow.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from undertow.nn.modules.module import Module
from undertow.nn.parallel.distributed import DistributedDataParallel
from undertow.optim.optimizer import Optimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip

Dict = dict[str, Any]


@dataclass
class StateDictOptions:
    """The contents of a state dict, and how strictly it is loaded."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    if options.dsd_fqn_modifiers != StateDictOptions.dsd_fqn_modifiers:
        raise NotImplementedError("undertow keeps the names of a model's state: leave out dsd_fqn_modifiers")
    return options


def _plain_names(model: Module, names: Iterable[str]) -> dict[str, str]:
    """Return names without the parts that wrappers and compiled modules add."""
    wrapped = {name for name, module in model.named_modules() if isinstance(module, DistributedDataParallel)}
    return {name: _plain(name, wrapped) for name in names}


def _plain(name: str, wrapped: Iterable[str]) -> str:
    parts = name.split(".")
    return ".".join(
        part
        for place, part in enumerate(parts)
        if part != "_orig_mod" and not (part == "module" and ".".join(parts[:place]) in wrapped)
    )


def _finished(value: Dict, options: StateDictOptions) -> Dict:
    """Return a state dict as the options want it: gathered, copied to the host, and then only on rank 0."""
    if options.full_state_dict:
        value = map_leaves(lambda leaf: leaf.full_tensor() if isinstance(leaf, DTensor) else leaf, value)
    if not options.cpu_offload:
        return value
    if options.full_state_dict and is_initialized() and get_rank() != 0:
        return {}
    return map_leaves(lambda leaf: leaf.detach().cpu() if isinstance(leaf, TensorCore) else leaf, value)


# --- full states to distributed tensors


def _placed(value: Any, like: Any) -> Any:
    """Return a whole tensor as a distributed one, if the tensor that it is for is distributed."""
    if isinstance(like, DTensor) and isinstance(value, TensorCore) and not isinstance(value, DTensor):
        if tuple(value.shape) == tuple(like.shape):
            return distribute_tensor(value.detach(), like.device_mesh, like.placements, src_data_rank=None)
    return value


def _from_rank_0(state_dict: Dict) -> Dict:
    """Return the entries that rank 0 has, nested, on every rank."""
    at_root = get_rank() == 0
    flat: list[Any] = []
    given = [map_leaves(lambda leaf: _Tensor(leaf, flat) if isinstance(leaf, TensorCore) else leaf, state_dict)]
    broadcast_object_list(given if at_root else (given := [None]), src=0)
    sent = flat if at_root else []

    def receive(leaf: Any) -> Any:
        if not isinstance(leaf, _Tensor):
            return leaf
        tensor = sent[leaf.number].detach().contiguous() if at_root else empty(leaf.shape, dtype=leaf.dtype)
        broadcast(tensor, src=0)
        return sent[leaf.number] if at_root else tensor

    return map_leaves(receive, given[0])


class _Tensor:
    """A tensor's place in a state dict that is sent, without its values."""

    def __init__(self, tensor: Any, sent: list[Any]) -> None:
        self.number, self.shape, self.dtype = len(sent), tuple(tensor.shape), tensor.dtype
        sent.append(tensor)

    def __getstate__(self) -> Any:
        return self.number, self.shape, str(self.dtype)

    def __setstate__(self, state: Any) -> None:
        self.number, self.shape, name = state
        self.dtype = getattr(dtypes, name.removeprefix("torch."))


# --- models


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> Dict:
    """Return a model's state dict; with `submodules`, only their entries."""
    options = _checked(options)
    state = model.state_dict()
    if options.ignore_frozen_params:
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                state.pop(name, None)
    state = {plain: state[name] for name, plain in _plain_names(model, state).items()}
    if submodules:
        plain = _plain_names(model, (name for name, module in model.named_modules() if name and module in submodules))
        prefixes = [f"{name}." for name in plain.values()]
        keep = options.keep_submodule_prefixes
        found = {name: next((prefix for prefix in prefixes if name.startswith(prefix)), None) for name in state}
        state = {
            name if keep else name.removeprefix(prefix): state[name]
            for name, prefix in found.items()
            if prefix is not None
        }
    return _finished(state, options)


def set_model_state_dict(model: Module, model_state_dict: Any, *, options: StateDictOptions | None = None) -> Any:
    """Load a model's state dict, or one per submodule; return the missing and unexpected keys."""
    options = _checked(options)
    given: Dict = {}
    names = {module: name for name, module in model.named_modules()}
    for key, value in model_state_dict.items():
        if isinstance(key, Module):
            prefix = f"{names[key]}." if names[key] else ""
            given.update({prefix + name: part for name, part in value.items()})
        else:
            given[key] = value
    state = model.state_dict()
    plain = _plain_names(model, state)
    lacking = [isinstance(value, TensorCore) and value.is_meta for value in state.values()]
    if options.full_state_dict:
        if not is_initialized() and (not given or all(lacking)):
            _refuse_to_receive()
        if options.broadcast_from_rank0:
            given = _from_rank_0(given)
        if not given:
            raise RuntimeError(
                "The option indicates that model state_dict is required: full_state_dict=True, and the one given on rank "
                f"{get_rank()} has no entries. Give it on this rank, or on rank 0 with broadcast_from_rank0=True."
            )
        likes = {plain[name]: value for name, value in state.items()}
        given = {name: _placed(value, likes.get(name)) for name, value in given.items()}
        given = likes | given  # entries not given stay
    assign = options.full_state_dict and any(lacking)  # meta tensors get values
    for name in state:
        if plain[name] in given:
            given[name] = given.pop(plain[name])
    return model.load_state_dict(given, strict=options.strict, assign=assign)


def _refuse_to_receive() -> NoReturn:
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


# --- optimizers


def _listed(optimizers: Optimizer | Iterable[Optimizer]) -> tuple[Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def _names_of(model: Module) -> dict[Any, str]:
    named = dict(model.named_parameters())
    return {named[name]: plain for name, plain in _plain_names(model, named).items()}


def _with_state(optimizer: Optimizer) -> Optimizer:
    """Create the state of an optimizer that has not stepped yet, by a step with zero gradients and rates."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if optimizer.state or any(parameter.grad is not None for parameter in parameters):
        return optimizer
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = zeros_like(parameter)
    rates = [group["lr"] for group in optimizer.param_groups if "lr" in group]
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = zeros_like(group["lr"]) if isinstance(group["lr"], TensorCore) else 0.0
    optimizer.step(closure=None)
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = rates.pop(0)
    optimizer.zero_grad(set_to_none=True)
    return optimizer


def _state_of(optimizer: Optimizer) -> Dict:
    """Return the state dict of an optimizer with state; all ranks collect that of a ZeroRedundancyOptimizer."""
    if not isinstance(optimizer, ZeroRedundancyOptimizer):
        return _with_state(optimizer).state_dict()
    _with_state(optimizer.optim)
    optimizer._consolidate_everywhere()
    return optimizer.state_dict()


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> Dict:
    """Return the state of optimizers, keyed by the model's parameter names."""
    options = _checked(options)
    names = _names_of(model)
    if submodules:
        inside = {parameter for module in submodules for parameter in module.parameters()}
        names = {parameter: name for parameter, name in names.items() if parameter in inside}
    result: Dict = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        own = _state_of(optimizer)
        named = {
            number: names[parameter]
            for group, numbered in zip(optimizer.param_groups, own["param_groups"], strict=True)
            for parameter, number in zip(group["params"], numbered["params"], strict=True)
            if not submodules or parameter in names
        }
        result["state"].update({named[number]: state for number, state in own["state"].items() if number in named})
        for group in own["param_groups"]:
            result["param_groups"].append({**group, "params": [named[n] for n in group["params"] if n in named]})
    result = _finished(result, options)
    return dict(_flattened(result)) if options.flatten_optimizer_state_dict and result else result


def _flattened(state: Dict) -> Iterator[tuple[str, Any]]:
    for parameter, values in state["state"].items():
        for key, value in values.items():
            yield f"state.{parameter}.{key}", value
    for group in state["param_groups"]:
        for parameter in group["params"]:
            for key, value in group.items():
                if key != "params":
                    yield f"param_groups.{parameter}.{key}", value


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: Dict, *, options: StateDictOptions | None = None
) -> None:
    """Load the state of optimizers as `get_optimizer_state_dict` returns it."""
    options = _checked(options)
    if options.broadcast_from_rank0:
        optim_state_dict = _from_rank_0(optim_state_dict)
    if not optim_state_dict:
        raise RuntimeError(
            "The option indicates that model state_dict is required: the state of the optimizers has no entries. Give it "
            "on this rank, or on rank 0 with broadcast_from_rank0=True."
        )
    names = _names_of(model)
    parameters = {name: parameter for parameter, name in names.items()}
    for optimizer in _listed(optimizers):
        own = _state_of(optimizer)
        named = [[names[parameter] for parameter in group["params"]] for group in optimizer.param_groups]
        wanting = {names[p] for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
        if options.flatten_optimizer_state_dict:
            state, groups = _deepened(optim_state_dict, own, named)
        else:
            state, groups = optim_state_dict["state"], _groups_with(optim_state_dict["param_groups"], named)
        loaded: dict[int, Any] = {}
        for numbered, called in zip(own["param_groups"], named, strict=True):
            for number, name in zip(numbered["params"], called, strict=True):
                if name in state:
                    loaded[number] = {key: _placed(value, parameters[name]) for key, value in state[name].items()}
                elif options.strict and name in wanting and not options.flatten_optimizer_state_dict:
                    raise RuntimeError(
                        f"Missing optimizer state for parameter '{name}' in checkpoint. It is one that the "
                        "optimizer updates; StateDictOptions(strict=False) loads the others without it."
                    )
        numbers = {name: n for group, names_ in zip(own["param_groups"], named, strict=True)
                   for n, name in zip(group["params"], names_, strict=True)}  # fmt: skip
        renumbered = [{**group, "params": [numbers[name] for name in group["params"]]} for group in groups]
        optimizer.load_state_dict({"state": loaded, "param_groups": renumbered})


def _groups_with(groups: list[Dict], named: list[list[str]]) -> list[Dict]:
    """Return the groups of a state dict that hold parameters of this optimizer."""
    own = {name for names in named for name in names}
    return [group for group in groups if own.intersection(group["params"])]


def _deepened(flat: Dict, own: Dict, named: list[list[str]]) -> tuple[Dict, list[Dict]]:
    """Return state and groups from their flat form; a group's options are those of its first parameter."""
    state: Dict = {}
    groups = []
    for group, names in zip(own["param_groups"], named, strict=True):
        for number, name in zip(group["params"], names, strict=True):
            prefix = f"state.{name}."
            keys = [key for key in own["state"].get(number, ()) if prefix + key in flat]
            if keys:
                state[name] = {key: flat[prefix + key] for key in keys}
        options = {key: flat[f"param_groups.{names[0]}.{key}"] for key in group if key != "params"}
        groups.append({**options, "params": names})
    return state, groups


# --- both


def get_state_dict(
    model: Module, optimizers: Any, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> tuple[Dict, Dict]:
    """Return the state dicts of the model and of its optimizers."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: Dict,
    optim_state_dict: Dict,
    options: StateDictOptions | None = None,
) -> Any:
    """Load what `get_state_dict` returned."""
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result
