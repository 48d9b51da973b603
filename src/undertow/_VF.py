"""`torch._VF`: functions that PyTorch implements in C++, under the names that layers call them by."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(importlib.import_module("undertow"), name)
