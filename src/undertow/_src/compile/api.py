"""`compile`: the entry point, for a step or for a module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from undertow._dynamo import OptimizedModule
from undertow._src.compile.compiled import Compiled
from undertow.nn.modules.module import Module


def _program_of(call: Any, fallback: str | None = None) -> Compiled:
    """Return a module's call as a compiled function, under the name of its class."""
    compiled = Compiled(call, fallback)
    compiled.name = type(call.__self__).__qualname__
    return compiled


def compile(function: Any, fallback: str | None = None, dynamic: Mapping[Any, Any] | None = None) -> Any:
    """Compile a step to one XLA program, or a module to two: its forward and its backward.

    fallback: for a step that can't be compiled: None raises CompileError, "eager" runs the step eagerly.
    dynamic: which sizes of arguments vary, as in {"tokens": 1}: these are padded to a few sizes, each with one program.
    """
    if isinstance(function, Module) and dynamic is not None:
        raise ValueError(
            "undertow.compile: dynamic is for a whole step (forward, loss, backward), and this is a module. Compile the "
            "step that calls it, and name the step's arguments."
        )
    if isinstance(function, Module):
        return OptimizedModule(function, partial(_program_of, fallback=fallback))
    if isinstance(function, Compiled) and (fallback, dynamic) == (function.fallback, function.asked_dynamic):
        return function
    return Compiled(function.function if isinstance(function, Compiled) else function, fallback, dynamic)
