"""Deprecated functions of autocast whose names contain the device, which is now an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.base.sites import warn
from undertow.amp import casting

_said: set[str] = set()  # the functions that have warned; each warns once


def _old(name: str, function: Callable[..., Any], device: str, arguments: str, instead: str) -> Callable[..., Any]:
    def old(*values: Any) -> Any:
        if name not in _said:
            _said.add(name)
            warn(f"torch.{name}({arguments}) is deprecated. Please use torch.{instead} instead.", DeprecationWarning)
        return function(device, *values)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"`{instead}`."
    return old


is_autocast_cpu_enabled = _old(
    "is_autocast_cpu_enabled", casting.is_autocast_enabled, "cpu", "", "is_autocast_enabled('cpu')"
)
set_autocast_cpu_enabled = _old(
    "set_autocast_cpu_enabled", casting.set_autocast_enabled, "cpu", "enabled", "set_autocast_enabled('cpu', enabled)"
)
get_autocast_cpu_dtype = _old(
    "get_autocast_cpu_dtype", casting.get_autocast_dtype, "cpu", "", "get_autocast_dtype('cpu')"
)
set_autocast_cpu_dtype = _old(
    "set_autocast_cpu_dtype", casting.set_autocast_dtype, "cpu", "dtype", "set_autocast_dtype('cpu', dtype)"
)
get_autocast_gpu_dtype = _old(
    "get_autocast_gpu_dtype", casting.get_autocast_dtype, "cuda", "", "get_autocast_dtype('cuda')"
)
set_autocast_gpu_dtype = _old(
    "set_autocast_gpu_dtype", casting.set_autocast_dtype, "cuda", "dtype", "set_autocast_dtype('cuda', dtype)"
)
