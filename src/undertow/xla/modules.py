"""`compile(model)`: a module whose forward runs as one program, and whose backward does too when it comes."""

from __future__ import annotations

from typing import Any

from undertow.nn.modules.module import Module
from undertow.xla.compiled import Compiled


class CompiledModule(Module):
    """A module that runs as a program. The original is `_orig_mod`; parameters and state dicts are its own."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._orig_mod = module
        self._forward = Compiled(module.__call__)
        self._forward.name = type(module).__qualname__
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(*args, **kwargs)

    def train(self, mode: bool = True) -> CompiledModule:
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)


def compile(function: Any) -> Any:
    """Makes one XLA program of a step, or two of a module: forward and backward."""
    if isinstance(function, Module):
        return CompiledModule(function)
    return function if isinstance(function, Compiled) else Compiled(function)
