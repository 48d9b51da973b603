"""Which modes and classes may override an operator, in which order, and what runs if none does.

Modes come first, the innermost first and each with itself switched off, then the classes among the arguments that
define `__torch_dispatch__`, subclasses before their bases. Recording has ended before that: what a handler computes is not
part of any graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._ops import OpOverload, namespace
from undertow._src.base import tree
from undertow._src.base.modes import local, slow_path
from undertow._src.overrides import torch_function
from undertow._src.overrides.dispatch import kernels
from undertow._src.tensor.core import NOT_ARRAYS, TensorCore

CLASSES: set[Any] = set()  # tensor classes that define `__torch_dispatch__`
offers = 0  # how many operators were dispatched so far


class Offer:
    """A call in progress, and how undertow computes exactly this one."""

    __slots__ = ("func", "args", "kwargs", "compute")

    def __init__(self, func: OpOverload, args: Any, kwargs: Any, compute: Callable[[], Any]) -> None:
        self.func, self.args, self.kwargs, self.compute = func, args, kwargs, compute

    def is_for(self, func: OpOverload, args: Any, kwargs: Any) -> bool:
        if func is not self.func or len(args) != len(self.args) or kwargs.keys() != self.kwargs.keys():
            return False
        return all(map(_same, args, self.args)) and all(_same(kwargs[name], self.kwargs[name]) for name in kwargs)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return not isinstance(a, TensorCore) and not isinstance(b, TensorCore) and type(a) is type(b) and bool(a == b)


class below_autograd:
    """Switch off recording and fast paths inside the block, while a handler runs."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        modes = local.modes
        self.before = modes.grad_enabled
        modes.grad_enabled = False
        modes.dispatch_depth += 1
        slow_path.enter()

    def __exit__(self, *exception: object) -> None:
        modes = local.modes
        modes.grad_enabled = self.before
        modes.dispatch_depth -= 1
        slow_path.leave()


class without_dispatch:
    """Run operators without overrides inside the block."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        modes = local.modes
        self.before = modes.function_modes
        modes.function_modes = []
        modes.function_off += 1
        modes.dispatch_off += 1

    def __exit__(self, *exception: object) -> None:
        modes = local.modes
        modes.function_modes = self.before
        modes.function_off -= 1
        modes.dispatch_off -= 1


def aten(name: str) -> OpOverload:
    """Return an operator by name and overload: `aten("mul.Tensor")`."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(namespace("aten"), packet), overload or "default")


def is_dispatched(values: Any) -> bool:
    """Whether any mode or class may override a call with these arguments."""
    modes = local.modes
    if modes.dispatch_off:
        return False
    return bool(modes.dispatch_modes) or any(type(value) in CLASSES for value in values)


def offer(func: OpOverload, args: Any, kwargs: Any, compute: Callable[[], Any] | None = None) -> Any:
    """Dispatch an operator. `compute` runs it if a handler repeats the same call unchanged, as most do."""
    global offers
    offers += 1
    modes = local.modes
    if compute is not None:
        modes.dispatch_calls.append(Offer(func, args, kwargs, compute))
    try:
        with below_autograd():
            return _call_handlers(func, args, kwargs)
    finally:
        if compute is not None:
            modes.dispatch_calls.pop()


def _call_handlers(func: OpOverload, args: Any, kwargs: Any) -> Any:
    modes = local.modes
    if modes.dispatch_off:
        return run(func, args, kwargs)
    stack = modes.dispatch_modes
    overriders = torch_function.by_precedence(
        [value for value in tree.leaves((args, kwargs)) if type(value) in CLASSES]
    )
    types = tuple([type(value) for value in overriders])
    if stack:
        result = torch_function.call_innermost_mode(stack, "__torch_dispatch__", func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in overriders:
        result = type(value).__torch_dispatch__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if overriders or stack:
        raise torch_function.all_declined("__torch_dispatch__", f"torch._ops.{func}", stack, overriders)
    return run(func, args, kwargs)


def run(func: OpOverload, args: Any, kwargs: Any) -> Any:
    """Compute an operator without overrides."""
    with without_dispatch(), below_autograd():
        for offered in reversed(local.modes.dispatch_calls):
            if offered.is_for(func, args, kwargs):
                return offered.compute()
        result = kernels.kernel_of(func)(*args, **kwargs)
    if isinstance(result, tuple) and func.namespace == "aten":  # no named results, and lists for views
        return list(result) if "[]" in func._schema.returns[0].type else tuple(result)
    return result


def note_class(cls: Any) -> None:
    """Register a new tensor class that defines `__torch_dispatch__`."""
    CLASSES.add(cls)
    NOT_ARRAYS.add(cls)
    torch_function.PLAIN.discard(cls)
    torch_function.QUIET.discard(cls)
