"""Names for stretches of a program (`torch.autograd.profiler`), which do nothing unless a profiler runs: as in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self


class record_function:
    """Names a stretch of the program, in a `with` block or over a function.

    >>> with torch.autograd.profiler.record_function("forward"):
    ...     y = torch.ones(2) + 1
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def named(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return named
