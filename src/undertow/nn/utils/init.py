"""Making modules without spending time on first values."""

from __future__ import annotations

import inspect
from typing import Any

from undertow.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a module whose parameters hold no meaningful values yet, for loading or drawing them oneself."""
    _check(module_cls)
    without_values = module_cls(*args, **{**kwargs, "device": "meta"})  # nothing is drawn for a meta tensor
    return without_values.to_empty(device=kwargs.get("device", "cpu"))


def _check(module_cls: Any) -> None:
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
