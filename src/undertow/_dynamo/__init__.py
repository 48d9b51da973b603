"""The few names of `torch._dynamo` that packages ask: eager code is never being compiled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from undertow.compiler import allow_in_graph as allow_in_graph
from undertow.compiler import assume_constant_result as assume_constant_result
from undertow.compiler import disable as disable
from undertow.compiler import is_compiling as is_compiling
from undertow.compiler import reset as reset
from undertow.compiler import set_stance as set_stance
from undertow.lazy import lazy_names
from undertow.nn.modules.module import Module

__all__ = [
    "OptimizedModule", "is_dynamo_supported", "list_backends",
    "allow_in_graph", "assume_constant_result", "config", "disable", "graph_break", "is_compiling", "reset",
    "set_stance",
]  # fmt: skip

config = SimpleNamespace(  # settings are kept and read by nobody
    suppress_errors=False, cache_size_limit=8, recompile_limit=8, verbose=False, capture_scalar_outputs=False,
    allow_unspec_int_on_nn_module=False, inline_inbuilt_nn_modules=True, automatic_dynamic_shapes=True,
    optimize_ddp=True, compiled_autograd=False, disable=False,
)  # fmt: skip


def graph_break(msg: str = "") -> None:
    """Ends a compiled program here: there is none."""


def _mark(t: Any, index: Any = None, **options: Any) -> None:
    """Tells a compiler about a tensor's sizes."""


mark_dynamic = maybe_mark_dynamic = mark_static = mark_static_address = _mark


class OptimizedModule(Module):
    """What `torch.compile` makes of a module in PyTorch."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The compilers that a program may choose from: none has a name here."""
    return []


def is_dynamo_supported() -> bool:
    """Whether Python's bytecode can be compiled: undertow does not look at it."""
    return False


__getattr__, __dir__ = lazy_names(__name__, {name: f"undertow._dynamo.{name}" for name in ("eval_frame", "exc", "utils")})
