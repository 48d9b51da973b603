"""`torch.ops`: the operators by namespace, `torch.ops.aten.add`. They are implemented in `_ops.py`."""

from __future__ import annotations

from typing import Any

from undertow import _ops


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_ops, name) if name in ("load_library", "loaded_libraries") else _ops.namespace(name)
