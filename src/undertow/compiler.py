"""`torch.compile`, and `torch.compiler`: annotations for the compiler, and queries.

The compiler itself is `undertow._src.compile`, which needs JAX and is loaded when something is compiled.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from undertow._src.arrays.device.memory import TraceAborted, import_jax
from undertow._src.base import tracer
from undertow._src.base.lazy import lazy_names
from undertow._src.base.modes import ContextDecorator, slow_path

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "reset", "set_stance",
]  # fmt: skip


def compile(
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | dict[Any, Any] | None = None, backend: Any = "inductor",
    mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False, fallback: str | None = None,
) -> Any:  # fmt: skip
    """Compile a function or module into one XLA program: a whole training step, with hooks, backward and optimizer.

    It may be used as a decorator. fallback: what to do with a step that can't be compiled: None raises CompileError,
    "eager" runs it eagerly, with a warning. dynamic: a dict that names arguments and their dims whose sizes vary, as in
    {"tokens": 1}: they are padded to a few sizes, and each of those has one program. True, PyTorch's value, has no effect,
    and neither have the other options, apart from `disable`. `compile.explain()` reports what was compiled and captured,
    which hooks run where, and why a step was compiled again.
    """
    if model is None:
        return lambda given: compile(given, dynamic=dynamic, disable=disable, fallback=fallback)
    if disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        return model
    if not isinstance(dynamic, (dict, bool, type(None))):
        raise ValueError(
            f"compile: dynamic is {dynamic!r}; it has to name arguments and their dims, as in {{'tokens': 1}}"
        )
    return compiler().compile(model, fallback, dynamic if isinstance(dynamic, dict) else None)


def explain(compiled: Any = None) -> Any:
    """Return a report on one compiled function, or on all."""
    return compiler().explain(compiled)


compile.explain = explain  # type: ignore[attr-defined]


def compiler() -> Any:
    """Return the package `undertow._src.compile`; raise if JAX is not installed."""
    try:
        import_jax()
    except ModuleNotFoundError as error:
        if error.name != "jax":
            raise
        raise ModuleNotFoundError(
            "undertow.compile needs JAX, which is not installed. Install it with: pip install 'jax>=0.10'",
            name="jax",
        ) from None
    return importlib.import_module("undertow._src.compile")


def is_compiling() -> bool:
    """Whether the calling code is being compiled."""
    return tracer.current is not None and tracer.current.is_here()


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the original of a compiled function. It may be used as `@disable(recursive=False)`.

    Any other function is returned unchanged, and is compiled as part of a step that calls it, with its hooks and effects.
    """
    if fn is None:
        return lambda marked: disable(marked, recursive, reason=reason)
    assert callable(fn), "fn must be callable"
    return getattr(fn, "_torchdynamo_orig_callable", fn)


def allow_in_graph(fn: Any) -> Any:
    """Return the function unchanged; PyTorch's compiler would not trace into it."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return the function unchanged; PyTorch's compiler would treat its result as a constant."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs."""


def reset() -> None:
    """Discard all compiled programs."""
    if "undertow._src.compile" in sys.modules:
        compiler().reset()


_STANCES = (
    "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"
)  # fmt: skip


class NotInStep(TraceAborted, AssertionError):
    """A compiled step did something that only the code around it may do."""


class set_stance(ContextDecorator):
    """Set what calls of compiled functions do, from now on; as a context manager or decorator, for the block.

    `force_eager` runs all calls eagerly, `eager_on_recompile` those without a program yet, and `eager_then_compile` the
    first call of each function; `fail_on_recompile` raises instead of compiling a program.
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if is_compiling():
            raise NotInStep("torch.compiler.set_stance can't be part of a compiled step: set it around the call")
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}': it is one of {', '.join(_STANCES)}")
        if stance != "default" and force_backend is not None:
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance, self._outer = stance, slow_path.stance
        slow_path.stance = stance

    def __enter__(self) -> None:
        slow_path.stance = self.stance

    def __exit__(self, *exception: object) -> None:
        slow_path.stance = self._outer

    def __call__(self, fn: Callable[..., Any]) -> Any:
        slow_path.stance = self._outer  # decorating must not change the current stance
        return super().__call__(fn)

    def clone(self) -> set_stance:
        return set_stance(self.stance)


# Classes that PyTorch does not have, for programs that catch them.
_LAZY = dict.fromkeys(("CompileError", "CompileWarning"), "undertow._src.compile.errors")
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
