"""`torch._C._linalg`: the functions of `torch.linalg` under the names `linalg_…`."""

from __future__ import annotations

from typing import Any

from undertow import linalg


def __getattr__(name: str) -> Any:
    found = getattr(linalg, name.removeprefix("linalg_"), None) if name.startswith("linalg_") else None
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
