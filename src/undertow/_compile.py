"""`torch._compile._disable_dynamo`: what PyTorch's compiler is to leave alone. It is not here, so all is as it was."""

from __future__ import annotations

from typing import Any


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """Return the function itself, or a decorator that gives it back."""
    return fn if fn is not None else lambda function: function
