"""Running NumPy without its floating-point warnings: PyTorch divides by zero silently.

NumPy keeps its error handling in a context variable. Entering a context in which it says "ignore" costs 60 ns where
`np.errstate` costs 1 µs, and the user's own setting stays unchanged.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from undertow._src.base.errors import out_of_memory

F = TypeVar("F", bound=Callable[..., Any])

_context = contextvars.Context()
_context.run(np.seterr, all="ignore")
[(_setting, _ignore)] = _context.items()

# Call a function in that context. RuntimeError if another thread, or a caller, has already entered it.
silently = _context.run


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without warnings, from any thread and at any depth. Out of memory, it raises PyTorch's error."""
    before = _setting.set(_ignore)
    try:
        return function(*args, **kwargs)
    except MemoryError as error:
        raise out_of_memory(error) from None
    finally:
        _setting.reset(before)


def quiet(function: F) -> F:
    """Decorate a kernel that may be called directly; inside an op, which is silent already, it costs almost nothing."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        if _setting.get(None) is _ignore:
            return function(*args, **kwargs)
        return quietly(function, *args, **kwargs)

    return inside  # type: ignore[return-value]
