"""`exposed_in`: set the `__module__` of a public name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def exposed_in(module: str) -> Callable[[Any], Any]:
    """Return a decorator that sets `__module__`."""

    def at_home(fn: Any) -> Any:
        fn.__module__ = module
        return fn

    return at_home
