"""`compile`: the entry point, for a step or for a module."""

from __future__ import annotations

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


def compile(function: Any, fallback: str | None = None) -> Any:
    """Compile a step to one XLA program, or a module to two: its forward and its backward.

    fallback: what happens if a step can't be compiled: None raises CompileError, "eager" runs the step eagerly.
    """
    if isinstance(function, Module):
        return OptimizedModule(function, partial(_program_of, fallback=fallback))
    if isinstance(function, Compiled) and fallback == function.fallback:
        return function
    return Compiled(function.function if isinstance(function, Compiled) else function, fallback)
