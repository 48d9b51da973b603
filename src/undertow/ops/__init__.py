"""The public functions by family. As `torch.ops`, the operators by namespace: `torch.ops.aten.add`."""

from __future__ import annotations

import importlib
import os
from typing import Any


def __getattr__(name: str) -> Any:
    is_family = os.path.exists(f"{os.path.dirname(__file__)}/{name}.py")  # of undertow's own, and not yet imported
    if is_family or (name.startswith("__") and name.endswith("__")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    operators = importlib.import_module("undertow._ops")
    return getattr(operators, name) if name in ("load_library", "loaded_libraries") else operators.namespace(name)
