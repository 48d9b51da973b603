"""`torch.compile`, and `torch.compiler`: what code says about itself to a compiler, and asks of it.

The compiler itself is `undertow.xla`, which needs JAX and is loaded when something is compiled.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from undertow.xp.device_memory import Watch

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "reset", "set_stance",
]  # fmt: skip


def compile(
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = "inductor",
    mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:  # fmt: skip
    """Makes one XLA program of a function or module: a whole training step, with its hooks, backward and optimizer.

    Also as a decorator. The other options are PyTorch's, for its own backends, and change nothing here, apart from
    `disable`. `compile.explain()` says what was compiled, what was captured, which hooks run where, and why a step was
    compiled again.
    """
    if model is None:
        return lambda given: compile(given, disable=disable)
    return model if disable else compiler().compile(model)


def explain(compiled: Any = None) -> Any:
    """A report on one compiled function, or on all."""
    return compiler().explain(compiled)


compile.explain = explain  # type: ignore[attr-defined]


def compiler() -> Any:
    """`undertow.xla`, if JAX is there."""
    try:
        importlib.import_module("jax")
    except ModuleNotFoundError as error:
        if error.name != "jax":
            raise
        raise ModuleNotFoundError(
            "undertow.compile goes through JAX, which is not installed. Install it with: pip install 'jax>=0.10'",
            name="jax",
        ) from None
    return importlib.import_module("undertow.xla")


def is_compiling() -> bool:
    """Whether the code that asks is being compiled."""
    return Watch.trace is not None


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
    """Forgets compiled programs."""
    if "undertow.xla" in sys.modules:
        compiler().reset()


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
