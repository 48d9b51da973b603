"""The few names of `torch._dynamo` that packages ask: eager code is never being compiled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from undertow.compiler import allow_in_graph as allow_in_graph
from undertow.compiler import assume_constant_result as assume_constant_result
from undertow.compiler import disable as disable
from undertow.compiler import is_compiling as is_compiling
from undertow.compiler import reset as reset

__all__ = ["allow_in_graph", "assume_constant_result", "config", "disable", "graph_break", "is_compiling", "reset"]

config = SimpleNamespace()  # settings are kept and read by nobody


def graph_break(msg: str = "") -> None:
    """Ends a compiled program here: there is none."""


def _mark(t: Any, index: Any = None, **options: Any) -> None:
    """Tells a compiler about a tensor's sizes."""


mark_dynamic = maybe_mark_dynamic = mark_static = mark_static_address = _mark
