"""`compile(model)`: a module whose forward runs as one program, and whose backward does too when it comes."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow._dynamo import OptimizedModule
from undertow._src.compile.compiled import Compiled
from undertow.nn.modules.module import Module


def _program_of(call: Any, fallback: str | None = None) -> Compiled:
    """Return the calls of a module as a program, under the name of its class."""
    compiled = Compiled(call, fallback)
    compiled.name = type(call.__self__).__qualname__
    return compiled


def compile(function: Any, fallback: str | None = None) -> Any:
    """Make one XLA program of a step, or two of a module: forward and backward.

    fallback: what a step that can't be compiled does. None: raises CompileError; "eager": runs as it is written.
    """
    if isinstance(function, Module):
        return OptimizedModule(function, partial(_program_of, fallback=fallback))
    if isinstance(function, Compiled) and fallback == function.fallback:
        return function
    return Compiled(function.function if isinstance(function, Compiled) else function, fallback)
