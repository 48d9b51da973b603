"""Run an optimizer on other parameters and another state, for a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from undertow._tensor import Tensor
from undertow.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Give an optimizer other parameters and another state inside a `with` block; its own return at the end.

    `swapin_parameters` are in the order of the optimizer's parameters, and `swapin_optim_state` is like its
    `state_dict()`. Tensors in it are updated in place; new entries of the state are dropped at the end.
    """
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state. Call optimizer.step() once before it.")
    parameters = list(swapin_parameters.values())
    if len(parameters) < sum(len(group["params"]) for group in optimizer.param_groups):
        raise RuntimeError(
            f"{_NAME} requires the explicit parameter state to match optimizer.param_groups ordering. There are "
            f"only {len(parameters)} parameters to swap in."
        )
    saved = _checked_groups(optimizer, swapin_optim_state)
    entries = _checked_entries(swapin_optim_state, {number for group in saved for number in group["params"]})
    groups: list[dict[str, Any]] = []
    state: defaultdict[Any, Any] = defaultdict(dict)
    left = iter(parameters)
    for group, given in zip(optimizer.param_groups, saved, strict=True):
        params = [next(left) for _ in group["params"]]
        groups.append({key: params if key == "params" else given[key] for key in group})
        state.update(
            (param, dict(entries.get(number, {}))) for number, param in zip(given["params"], params, strict=True)
        )
    own = optimizer.param_groups, optimizer.state
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = own


def _checked_groups(optimizer: Optimizer, given: Any) -> list[dict[str, Any]]:
    """Return the groups of a state dict, if they have the parameter counts and the options of the optimizer's."""
    if not isinstance(given, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict. It is a {type(given).__name__}.")
    groups = given.get("param_groups")
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group dicts, got "
            f"{type(groups).__name__}."
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the optimizer.")
    for place, (group, live) in enumerate(zip(groups, optimizer.param_groups, strict=True)):
        if not isinstance(group, dict):
            raise RuntimeError(f"{_NAME} requires each optimizer param group to be a dictionary.")
        numbers = group.get("params")
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise RuntimeError(
                f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries keyed by packed "
                f"parameter ids. Those of group {place} are {numbers!r}."
            )
        if len(numbers) != len(live["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {place} has a different number of params than its group."
            )
        if group.keys() != live.keys():
            raise RuntimeError(
                f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match the optimizer's. "
                f"In group {place}, only one of both has {sorted(group.keys() ^ live.keys())}."
            )
    return groups


def _checked_entries(given: dict[str, Any], numbers: set[int]) -> dict[int, dict[str, Any]]:
    """Return the state of a state dict, by the numbers of its parameters."""
    entries = given.get("state")
    if not isinstance(entries, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping numbers of parameters to their states, "
            f"got {type(entries).__name__}."
        )
    extra = [key for key in entries if key not in numbers]
    if extra:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter ids of the groups; got "
            f"extra keys {extra}."
        )
    if not all(isinstance(entry, dict) for entry in entries.values()):
        raise RuntimeError(f"{_NAME} requires per-parameter optimizer state entries to be dictionaries.")
    return entries
