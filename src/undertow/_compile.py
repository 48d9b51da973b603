"""`torch._compile._disable_dynamo`: exclude a function from PyTorch's compiler, which undertow does not have."""

from __future__ import annotations

from typing import Any


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """Return the function unchanged, or a decorator that does."""
    return fn if fn is not None else lambda function: function
