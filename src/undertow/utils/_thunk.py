"""`Thunk`: a value that is computed on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Thunk:
    """Calls a function once, at the first `force()`."""

    __slots__ = ("f", "r")

    def __init__(self, f: Callable[[], Any]) -> None:
        self.f: Callable[[], Any] | None = f
        self.r: Any = None

    def force(self) -> Any:
        if self.f is not None:
            self.r = self.f()
            self.f = None
        return self.r
