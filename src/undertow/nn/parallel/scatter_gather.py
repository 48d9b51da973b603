"""Splitting a batch over devices, and gathering the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.ops.join import cat, stack
from undertow._src.tensor.core import TensorCore
from undertow._src.types.aliases import Device

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any] | tuple[Any, ...]:
    """Split the tensors in nested containers along `dim`, one part per device; repeat anything else."""
    if isinstance(inputs, TensorCore):
        return tuple(part.to(device) for part, device in zip(inputs.chunk(len(target_gpus), dim), target_gpus))
    if isinstance(inputs, tuple) and inputs:
        rows = zip(*[scatter(item, target_gpus, dim) for item in inputs])
        return [type(inputs)(*row) if hasattr(inputs, "_fields") else row for row in rows]
    if isinstance(inputs, list) and inputs:
        return [list(row) for row in zip(*[scatter(item, target_gpus, dim) for item in inputs])]
    if isinstance(inputs, dict) and inputs:
        parts = zip(*[scatter(item, target_gpus, dim) for item in inputs.values()])
        return [type(inputs)(zip(inputs, part)) for part in parts]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Return the arguments of a call, split for each device."""
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    longest = max(len(positional), len(named))
    positional += [()] * (longest - len(positional))
    named += [{}] * (longest - len(named))
    return tuple(positional), tuple(named)


def gather(outputs: Any, target_device: Device, dim: int = 0) -> Any:
    """Concatenate the results of several devices along `dim` on one of them."""
    first = outputs[0]
    if isinstance(first, TensorCore):
        moved = [output.to(target_device) for output in outputs]
        return stack(moved) if first.dim() == 0 else cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    parts = [gather(part, target_device, dim) for part in zip(*outputs)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)


def is_namedtuple(obj: object) -> bool:
    """Whether an object is a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


_is_namedtuple = is_namedtuple
