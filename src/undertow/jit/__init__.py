"""`torch.jit`, switched off: scripting and tracing return the Python code itself.

PyTorch behaves like this with `PYTORCH_JIT=0`. Programs that script their functions run; features that need a compiled
program, such as saving one to a file, are missing.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from undertow.futures import Future
from undertow.nn.modules.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
    "TopLevelTracedModule", "TracedModule", "annotate", "enable_onednn_fusion", "export", "fork", "freeze", "ignore",
    "interface", "is_scripting", "is_tracing", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference",
    "optimized_execution", "run_frozen_optimizations", "save", "script", "script_if_tracing", "script_method",
    "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

Decorated = TypeVar("Decorated")


class Error(RuntimeError):
    """The error of compiled programs in PyTorch; never raised here."""


class _Compiled(type):
    """The metaclass of compiled things: what `script` or `trace` returned counts as one."""

    returned: WeakValueDictionary[int, object]

    def __init__(cls, *args: Any) -> None:
        super().__init__(*args)
        cls.returned = WeakValueDictionary()  # by id: a module may be unhashable

    def __instancecheck__(cls, instance: object) -> bool:
        found = instance is not None and cls.returned.get(id(instance)) is instance
        return found or super().__instancecheck__(instance)


class ScriptModule(Module, metaclass=_Compiled):
    """The base of scripted modules; here a plain module."""


class RecursiveScriptModule(ScriptModule):
    """What `script` returns for a module."""


class TracedModule(ScriptModule):
    """What `trace` returns for a module."""


class TopLevelTracedModule(TracedModule):
    """What `trace` returns for the outermost module."""


_TRACED = (TopLevelTracedModule, TracedModule, ScriptModule)


class ScriptFunction(metaclass=_Compiled):
    """A compiled function in PyTorch; here a plain function."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("torch.jit.ScriptFunction: undertow compiles no functions")


class CompilationUnit:
    """Compiled TorchScript source, for which undertow has no compiler."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("torch.jit.CompilationUnit: undertow has no compiler for TorchScript source")


class TracerWarning(Warning):
    """PyTorch's warning while tracing; never issued here."""


class TracingCheckError(Exception):
    """PyTorch's error for a trace with different results; never raised here."""


class ScriptWarning(Warning):
    """PyTorch's warning while scripting; never issued here."""


class Attribute(NamedTuple):
    """A value with its TorchScript type."""

    value: Any
    type: Any


# --- functions that return code unchanged


def _mark(obj: Decorated, *kinds_of_modules: _Compiled) -> Decorated:
    """Let a function or module count as an instance of the class that PyTorch returns, and return it."""
    kinds = kinds_of_modules if isinstance(obj, Module) else (ScriptFunction,) if isinstance(obj, FunctionType) else ()
    for kind in kinds:
        kind.returned[id(obj)] = obj
    return obj


def script(
    obj: Decorated, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Decorated:
    """Return the function, class or module itself.

    >>> @torch.jit.script
    ... def double(x: torch.Tensor) -> torch.Tensor:
    ...     return x + x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    return _mark(obj, RecursiveScriptModule, ScriptModule)


def trace(func: Decorated, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Decorated:
    """Return the function or module itself; the example inputs are not used."""
    return _mark(func, *_TRACED)


def trace_module(mod: Decorated, inputs: Any, *args: Any, **kwargs: Any) -> Decorated:
    """Return the module itself; the example inputs are not used."""
    return _mark(mod, *_TRACED)


def freeze(mod: Decorated, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Decorated:
    """Return the module itself."""
    return mod


def optimize_for_inference(mod: Decorated, other_methods: Any = None) -> Decorated:
    """Return the module itself."""
    return mod


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Do nothing: there is no compiled program to optimize."""


def script_method(fn: Decorated) -> Decorated:
    """Return the method itself."""
    return fn


def script_if_tracing(fn: Decorated) -> Decorated:
    """Return the function itself."""
    return fn


_script_if_tracing = script_if_tracing


def _overload(func: Decorated) -> Decorated:
    """Return the function itself; PyTorch registers the signature as an overload."""
    return func


_overload_method = _overload


def interface(obj: Decorated) -> Decorated:
    """Return the class itself."""
    return obj


def export(fn: Decorated) -> Decorated:
    """Return the method itself."""
    return fn


def unused(fn: Decorated) -> Decorated:
    """Return the method itself."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the function itself; also as `@ignore(drop=True)`."""
    if callable(drop):
        return drop
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    return lambda fn: fn


# --- queries and settings


def is_scripting() -> bool:
    """Whether the caller runs as TorchScript: never."""
    return False


def is_tracing() -> bool:
    """Whether the caller is being traced: never."""
    return False


def annotate(the_type: Any, the_value: Decorated) -> Decorated:
    """Return the value itself."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, including the items of containers: `isinstance(x, list[int])`."""
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, kind) for kind in target_type)
    origin: Any = getattr(target_type, "__origin__", None)
    parameters: Any = getattr(target_type, "__args__", ())
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if not builtins.isinstance(origin, type):  # a union
        return any(isinstance(obj, kind) for kind in parameters)
    if not issubclass(type(obj), origin):
        return False
    if origin is dict:
        return all(isinstance(key, parameters[0]) and isinstance(obj[key], parameters[1]) for key in obj)
    if origin is tuple:
        return len(obj) == len(parameters) and all(map(isinstance, obj, parameters))
    return all(isinstance(item, parameters[0]) for item in obj)


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing: there is no compiled program to optimize."""
    yield


class strict_fusion:
    """Do nothing: nothing is fused."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing: nothing is fused."""


def onednn_fusion_enabled() -> bool:
    return False


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Do nothing: nothing is fused. Return the previous strategy: none."""
    return []


# --- tasks


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Return a future with the result of `func(*args, **kwargs)`, computed at once, as in PyTorch's eager mode."""
    future: Future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """Return the result of a future."""
    return future.wait()


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Raise: there is no compiled program to save."""
    raise NotImplementedError(
        "undertow has no torch.jit.save: scripted modules stay Python here. torch.save(module.state_dict(), file) saves "
        "their weights."
    )


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Raise: undertow does not run TorchScript programs."""
    raise NotImplementedError("undertow has no torch.jit.load: it runs no TorchScript programs")
