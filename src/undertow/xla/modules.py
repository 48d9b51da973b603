"""`compile(model)`: a module whose forward runs as one program, and whose backward does too when it comes."""

from __future__ import annotations

from typing import Any

from undertow._dynamo import OptimizedModule
from undertow.nn.modules.module import Module
from undertow.xla.compiled import Compiled


def _program_of(call: Any) -> Compiled:
    """The calls of a module as a program, under the name of its class."""
    compiled = Compiled(call)
    compiled.name = type(call.__self__).__qualname__
    return compiled


def compile(function: Any) -> Any:
    """Makes one XLA program of a step, or two of a module: forward and backward."""
    if isinstance(function, Module):
        return OptimizedModule(function, _program_of)
    return function if isinstance(function, Compiled) else Compiled(function)
