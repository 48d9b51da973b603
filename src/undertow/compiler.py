"""`torch.compiler`: what code says about itself to a compiler, and asks of it. Eager code is never being compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "reset", "set_stance",
]  # fmt: skip


def is_compiling() -> bool:
    """Whether the code that asks is being compiled."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Marks a function that must stay eager: it does. Also as `@disable(recursive=False)`."""
    return (lambda marked: marked) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Marks functions that a compiler takes as they are."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Marks a function whose result a compiler may keep."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Tells recorded GPU programs that a new step begins: there are none."""


def reset() -> None:
    """Forgets compiled programs: there are none."""


class set_stance:
    """Says how to treat compiled code, as context manager, decorator or call. Eager code stays eager under any."""

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn
