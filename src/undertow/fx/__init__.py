"""The few names of `torch.fx` that packages ask about. undertow has no symbolic tracing, so nothing is ever a proxy."""

from __future__ import annotations

from typing import Any, NoReturn

from undertow.nn.modules.module import Module

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "symbolic_trace", "wrap"]


def wrap(fn_or_name: Any) -> Any:
    """Marks a function that symbolic tracing should not look into. Returns it."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def symbolic_trace(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuses: undertow has no symbolic tracing."""
    raise RuntimeError("undertow has no torch.fx.symbolic_trace: its graphs are those of autograd")


class _Absent:
    """A class of symbolic tracing: something to compare types with, of which nothing can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"undertow has no torch.fx.{type(self).__name__}: it does no symbolic tracing")


class Graph(_Absent):
    """A traced program."""


class GraphModule(_Absent, Module):
    """A module that runs a traced program."""


class Node(_Absent):
    """A step of a traced program."""


class Proxy(_Absent):
    """What stands in for a value while a program is traced."""


class Tracer(_Absent):
    """What traces a program."""


class Interpreter(_Absent):
    """What runs a traced program step by step."""


class Transformer(Interpreter):
    """What rewrites a traced program."""
