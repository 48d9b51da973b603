"""The few names of `torch._dynamo` that packages use. Eager code is never being compiled."""

from __future__ import annotations

from typing import Any

from undertow._dynamo import config as config
from undertow._src.base.lazy import lazy_names
from undertow.compiler import allow_in_graph as allow_in_graph
from undertow.compiler import assume_constant_result as assume_constant_result
from undertow.compiler import disable as disable
from undertow.compiler import is_compiling as is_compiling
from undertow.compiler import reset as reset
from undertow.compiler import set_stance as set_stance
from undertow.nn.modules.module import Module

__all__ = [
    "OptimizedModule", "is_dynamo_supported", "list_backends",
    "allow_in_graph", "assume_constant_result", "config", "disable", "graph_break", "is_compiling", "reset",
    "set_stance",
]  # fmt: skip


def graph_break(msg: str = "") -> None:
    """Do nothing: eager code has no graph to break."""


def _mark(t: Any, index: Any = None, **options: Any) -> None:
    """Ignore a hint about a tensor's sizes."""


mark_dynamic = maybe_mark_dynamic = mark_static = mark_static_address = _mark


_OF_THE_WRAPPER = frozenset({"_orig_mod", "dynamo_ctx", "_forward"})


class OptimizedModule(Module):
    """A compiled module, as `torch.compile` returns it. The original is `_orig_mod`.

    Parameters, state dicts and attributes, read or set, are those of the original.
    """

    __module__ = "torch._dynamo.eval_frame"

    def __init__(self, mod: Module, dynamo_ctx: Any) -> None:
        """Compile the calls of a module with `dynamo_ctx`, which compiles a function."""
        super().__init__()
        del self.__dict__["training"]
        self._modules["_orig_mod"] = mod
        self.__dict__.update(dynamo_ctx=dynamo_ctx, _forward=dynamo_ctx(mod.__call__))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OF_THE_WRAPPER or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        elif name in vars(self):  # the lists of hooks on the wrapper
            self.__dict__[name] = value
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __len__(self) -> int:
        if not hasattr(self._orig_mod, "__len__"):
            raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")
        return len(self._orig_mod)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the original module; a copy, or a module loaded from a file, is compiled again."""
        own = {name: value for name, value in vars(self).items() if name not in ("_modules", *_OF_THE_WRAPPER)}
        return _compiled_again, (self._orig_mod, self.dynamo_ctx), own


def _compiled_again(mod: Module, dynamo_ctx: Any) -> OptimizedModule:
    return OptimizedModule(mod, dynamo_ctx)


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names of selectable compiler backends: none."""
    return []


def is_dynamo_supported() -> bool:
    """Whether Python's bytecode can be compiled: False, undertow does not read it."""
    return False


_PARTS = "eval_frame exc test_case utils".split()
__getattr__, __dir__ = lazy_names(__name__, {name: f"undertow._dynamo.{name}" for name in _PARTS})
