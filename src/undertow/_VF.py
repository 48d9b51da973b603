"""`torch._VF`: compiled functions by their bare names, as layers call them."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(importlib.import_module("undertow"), name)
