"""Calling a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from undertow._src.ops.join import stack
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module

if TYPE_CHECKING:
    from undertow._tensor import Tensor

_ABSENT = object()


def functional_call(
    module: Module, parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]], args: object = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Tensor:  # fmt: skip
    """Call `module(*args, **kwargs)` with the given tensors, by name, instead of the module's own.

    If the call replaces a given buffer by another tensor, the mapping holds that one afterwards. With tie_weights, a
    tensor that the module holds under several names is replaced under all of them. With `strict`, the names must be
    exactly the module's.
    """
    given_args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, _merged(parameter_and_buffer_dicts), tie_weights=tie_weights, strict=strict):
        return module(*given_args, **(kwargs or {}))


def _merged(given: object) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    if not isinstance(given, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
    if not all(isinstance(part, Mapping) for part in given):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for part in given for name in part]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: value for part in given for name, value in part.items()}


@contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: Mapping[str, Any], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """Make the module hold the given tensors inside the block."""
    if not isinstance(module, Module):
        raise TypeError(f"expected a torch.nn.Module, but got {type(module)}")
    replaced = _untie_named_tensors_map(module, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    if strict:
        _check_names(module, replaced)
    before: list[tuple[dict[str, Any], str, Any]] = []
    places: dict[str, tuple[dict[str, Any], str]] = {}
    try:
        for name, value in replaced.items():
            if not isinstance(value, TensorCore) and value is not None:
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            holder, key = places[name] = _place_of(module, name)
            before.append((holder, key, holder.get(key, _ABSENT)))
            holder[key] = value
        yield
    finally:
        for name, (holder, key) in places.items():
            if name in parameters_and_buffers and isinstance(parameters_and_buffers, dict):
                parameters_and_buffers[name] = holder[key]
        for holder, key, value in reversed(before):
            if value is _ABSENT:
                del holder[key]
            else:
                holder[key] = value


def _place_of(module: Module, name: str) -> tuple[dict[str, Any], str]:
    """Return the dict that holds a parameter or buffer, and its key there; for a new name, the plain attributes."""
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path)
    for holder in (owner._parameters, owner._buffers):
        if key in holder:
            return holder, key
    return owner.__dict__, key


def _untie_named_tensors_map(module: Module, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given tensors under all names of the tensors they replace."""
    names: dict[int, list[str]] = {}
    held = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    for name, tensor in held:
        names.setdefault(id(tensor), []).append(name)
    result = dict(given)
    for tied in names.values():
        values = {id(given[name]): given[name] for name in tied if name in given}
        if len(tied) > 1 and len(values) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. Consider using "
                "tie_weights=False"
            )
        for name in tied if len(tied) > 1 and values else ():
            result[name] = next(iter(values.values()))
    return result


def _check_names(module: Module, given: Mapping[str, Any]) -> None:
    held = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    held |= {name for name, _ in module.named_buffers(remove_duplicate=False)}
    unexpected, missing = sorted(set(given) - held), sorted(held - set(given))
    problems = []
    if unexpected:
        problems.append("Unexpected key(s): " + ", ".join(map(repr, unexpected)) + ".")
    if missing:
        problems.append("Missing key(s): " + ", ".join(map(repr, missing)) + ".")
    if problems:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems))


def stack_module_state(models: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and buffers of models of the same class, each stacked over the models."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(model.training for model in models) or not any(model.training for model in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {name: construct_stacked_leaf([held[name] for held in parameters], name) for name in parameters[0]},
        {name: construct_stacked_leaf([held[name] for held in buffers], name) for name in buffers[0]},
    )


def construct_stacked_leaf(tensors: list[Any], name: str) -> Tensor:
    """Return one leaf that stacks the tensors that several models have under a name."""
    if not all(tensor.is_leaf for tensor in tensors):
        return stack(tensors)
    if len({tensor.requires_grad for tensor in tensors}) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return stack(tensors).detach()._with_requires_grad(tensors[0].requires_grad)
