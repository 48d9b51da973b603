"""How the modules of `torch._refs` find their functions."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from undertow._tensor import Tensor


def mirror(module: str, home: str, names: str) -> tuple[Callable[[str], Any], list[str]]:
    """Return a module's `__getattr__` and `__all__`: these names, as functions of a home or else as methods of tensors."""
    known = names.split()

    def find(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(home), name, None) if home else None
        return found if callable(found) and not isinstance(found, type) else _of_tensors(name)

    return find, known


@functools.cache
def _of_tensors(name: str) -> Callable[..., Any]:
    """Return a method or an attribute of tensors as a function; a draw in place as one into a copy."""
    method = getattr(Tensor, name, None)

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        if method is None:
            return getattr(input.clone(), f"{name}_")(*args, **kwargs)
        return method(input, *args, **kwargs) if callable(method) else getattr(input, name)

    function.__name__ = function.__qualname__ = name
    return function
