"""Calling a module with other tensors in the place of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from undertow.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with the given tensors, by name, instead of its own.

    Writes that the call makes to a buffer go into the given mapping. With tie_weights, a tensor that the module holds
    under several names is replaced under all of them. `strict` wants every name given, and no other.
    """
    if isinstance(parameters_and_buffers, Mapping):
        given = parameters_and_buffers
    elif isinstance(parameters_and_buffers, Sequence):
        if not all(isinstance(part, Mapping) for part in parameters_and_buffers):
            raise ValueError("Expected all elements of parameters_and_buffers to be dictionaries")
        names = [name for part in parameters_and_buffers for name in part]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"{sorted(twice)} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {name: value for part in parameters_and_buffers for name, value in part.items()}
    else:
        raise ValueError(
            "Expected parameters_and_buffers to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameters_and_buffers)}"
        )
    given_args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, given, tie_weights=tie_weights, strict=strict):
        return module(*given_args, **(kwargs or {}))


@contextmanager
def _reparametrize_module(
    module: Any, parameters_and_buffers: Mapping[str, Any], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """Inside, the module holds the given tensors."""
    if not isinstance(module, Module):
        raise TypeError(f"expected a torch.nn.Module, but got {type(module)}")
    replaced = _with_tied(module, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    if strict:
        _check_names(module, replaced)
    before: list[tuple[dict[str, Any], str, Any]] = []
    places: dict[str, tuple[dict[str, Any], str]] = {}
    try:
        for name, value in replaced.items():
            holder, key = places[name] = _place_of(module, name)
            before.append((holder, key, holder[key]))
            holder[key] = value
        yield
    finally:
        for name, (holder, key) in places.items():
            if name in parameters_and_buffers and holder[key] is not parameters_and_buffers[name]:
                if isinstance(parameters_and_buffers, dict):
                    parameters_and_buffers[name] = holder[key]
        for holder, key, value in reversed(before):
            holder[key] = value


def _place_of(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """The dict that holds a parameter or buffer, and its key there."""
    path, _, key = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        raise AttributeError(f"{type(module).__name__} has no attribute `{path}`") from None
    for holder in (owner._parameters, owner._buffers):
        if key in holder:
            return holder, key
    if key in owner.__dict__:
        return owner.__dict__, key
    raise AttributeError(f"{type(owner).__name__} has no attribute `{key}`")


def _with_tied(module: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given tensors also under the other names of what they replace."""
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


def _check_names(module: Any, given: Mapping[str, Any]) -> None:
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
