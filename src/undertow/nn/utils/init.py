"""Constructing modules without initializing their parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from undertow.nn.modules.module import Module

if TYPE_CHECKING:
    from undertow.nn.modules.module import ModuleT

__all__ = ["skip_init"]


def skip_init(module_cls: type[ModuleT], *args: Any, **kwargs: Any) -> ModuleT:
    """Return a module with uninitialized parameters, to be loaded or initialized later."""
    _check(module_cls)
    without_values = module_cls(*args, **{**kwargs, "device": "meta"})  # initialization is skipped for meta tensors
    return without_values.to_empty(device=kwargs.get("device", "cpu"))


def _check(module_cls: type) -> None:
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
