"""Calling several modules, each with its own inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.base.modes import is_grad_enabled, set_grad_enabled
from undertow._src.tensor.core import TensorCore
from undertow._utils import ExceptionWrapper

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: object) -> Any:
    """Return the first tensor in a nested value, or None."""
    if isinstance(obj, TensorCore):
        return obj
    parts = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    return next((found for found in map(get_a_var, parts) if found is not None), None)


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """Call each module with its own arguments, one after the other, because there is one device."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    options = kwargs_tup if kwargs_tup is not None else [{}] * len(modules)
    if len(options) != len(modules) or (devices is not None and len(devices) != len(modules)):
        raise AssertionError("there has to be one device and one dict of arguments for each module")
    recording, results = is_grad_enabled(), []
    for number, (module, given, named) in enumerate(zip(modules, inputs, options, strict=True)):
        try:
            with set_grad_enabled(recording):
                results.append(module(*(given if isinstance(given, (list, tuple)) else (given,)), **named))
        except Exception:
            where = f"in replica {number} on device {None if devices is None else devices[number]}"
            ExceptionWrapper(where=where).reraise()
    return results
