"""State dicts keyed by the model's parameter names, for optimizers too.

An optimizer's own state dict numbers the parameters. Here each has its name in the model, without the parts that
compiled modules add. The full state is that of this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from undertow._src.base.tree import map_leaves
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import zeros_like
from undertow.nn.modules.module import Module
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
    return options


def _plain(name: str) -> str:
    """Return a name without the parts that compiled modules add."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def _on_host(value: Any, options: StateDictOptions) -> Any:
    if not options.cpu_offload:
        return value
    return map_leaves(lambda leaf: leaf.detach().cpu() if isinstance(leaf, TensorCore) else leaf, value)


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
    for name in list(state):
        state[_plain(name)] = state.pop(name)
    if submodules:
        prefixes = [f"{_plain(name)}." for name, module in model.named_modules() if name and module in submodules]
        keep = options.keep_submodule_prefixes
        found = {name: next((prefix for prefix in prefixes if name.startswith(prefix)), None) for name in state}
        state = {
            name if keep else name.removeprefix(prefix): state[name]
            for name, prefix in found.items()
            if prefix is not None
        }
    return _on_host(state, options)


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
    assign = False
    if options.full_state_dict:  # entries not given stay; meta tensors get values
        lacking = [isinstance(value, TensorCore) and value.is_meta for value in state.values()]
        if not given or all(lacking):
            _refuse_to_receive()
        given = {_plain(name): value for name, value in state.items()} | given
        assign = any(lacking)
    for name in state:
        if _plain(name) in given:
            given[name] = given.pop(_plain(name))
    return model.load_state_dict(given, strict=options.strict, assign=assign)


def _refuse_to_receive() -> NoReturn:
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


# --- optimizers


def _listed(optimizers: Optimizer | Iterable[Optimizer]) -> tuple[Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def _names_of(model: Module) -> dict[Any, str]:
    return {parameter: _plain(name) for name, parameter in model.named_parameters()}


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
        own = _with_state(optimizer).state_dict()
        named = {
            number: names[parameter]
            for group, numbered in zip(optimizer.param_groups, own["param_groups"], strict=True)
            for parameter, number in zip(group["params"], numbered["params"], strict=True)
            if not submodules or parameter in names
        }
        result["state"].update({named[number]: state for number, state in own["state"].items() if number in named})
        for group in own["param_groups"]:
            result["param_groups"].append({**group, "params": [named[n] for n in group["params"] if n in named]})
    result = _on_host(result, options)
    return dict(_flattened(result)) if options.flatten_optimizer_state_dict else result


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
    if not optim_state_dict:
        raise RuntimeError(
            f"The option indicates that model state_dict is required to save, or load; that of the optimizer is empty. "
            f"{optim_state_dict}"
        )
    names = _names_of(model)
    for optimizer in _listed(optimizers):
        own = _with_state(optimizer).state_dict()
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
                    loaded[number] = state[name]
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
