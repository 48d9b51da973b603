"""Average parameters over the ranks, in one collective for each dtype."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from undertow._src.base.modes import no_grad
from undertow._src.distributed.buckets import flattened
from undertow._src.distributed.functions import all_reduce
from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.state import default_group
from undertow.nn.parameter import Parameter

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[Parameter], process_group: ProcessGroup | None) -> None:
    """Replace every parameter by its mean over the ranks of a group."""
    group = process_group if process_group is not None else default_group()
    listed = list(params)
    with no_grad():
        for dtype in {param.dtype: None for param in listed}:
            alike = [param for param in listed if param.dtype is dtype]
            mean = flattened([param.detach() for param in alike]).div_(group.size())
            all_reduce(mean, group=group)
            for param, part in zip(alike, mean.split([param.numel() for param in alike]), strict=True):
                param.copy_(part.view(param.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Parameter]:
    """Return the parameters that have a gradient, of an iterable of parameters or of parameter groups."""
    found: list[Any] = []
    for each in params:
        if isinstance(each, Parameter):
            found.append(each)
        elif isinstance(each, dict):
            found += each["params"]
        else:
            raise NotImplementedError(f"Parameter input of type {type(each)} is not supported")
    return [param for param in found if param.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: ProcessGroup) -> None:
    """Replace every parameter that has a gradient by its mean over the ranks of a group."""
    average_parameters(get_params_to_average(params), process_group)
