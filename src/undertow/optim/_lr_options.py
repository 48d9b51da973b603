"""Options of parameter groups, which may be tensors, and arguments that are given once or per group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.tensor.core import TensorCore


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, TensorCore) else value


def values_of(optimizer: Any, key: str) -> list[Any]:
    """Return one option of every group; tensors are copied, because they are written in place."""
    return [copied(group[key]) for group in optimizer.param_groups]


def put_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; a tensor is written in place, because other code may hold it."""
    held = group[key]
    if isinstance(held, TensorCore):
        held.fill_(value.reshape(()) if isinstance(value, TensorCore) else value)
    else:
        group[key] = value


def one_per_group(name: str, optimizer: Any, value: Any) -> list[Any]:
    """Return an argument that may be given once or per group as a list with one value per group."""
    if not isinstance(value, (list, tuple)):
        return [value] * len(optimizer.param_groups)
    if len(value) != len(optimizer.param_groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {len(optimizer.param_groups)}."
        )
    return list(value)


def functions_per_group(optimizer: Any, given: Any) -> list[Callable[[int], Any]]:
    if not isinstance(given, (list, tuple)):
        return [given] * len(optimizer.param_groups)
    if len(given) != len(optimizer.param_groups):
        raise ValueError(f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {len(given)}")
    return list(given)


def state_of_function(function: Any) -> dict[str, Any] | None:
    """Return what a checkpoint stores of a callable: an object's attributes; nothing of a plain function."""
    return None if isinstance(function, type(lambda: None)) else function.__dict__.copy()
