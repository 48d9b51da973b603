"""The closure, default values, partial arguments and attributes of a hook that the step makes.

Eager code makes a new hook in each call, around new tensors. A program has the hook of the trace, and gives it the
closure, default values and so on that the hook of the call would have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, NamedTuple

from undertow._src.compile.effects import purity


class Bound(NamedTuple):
    """Stands for values bound to a hook: default values, arguments of a partial, or the object of a method."""

    args: list[Any]
    kwargs: dict[str, Any]
    inner: Bound | None  # default values of the partial's function

    def bind(self, hook: Any, shown: Callable[[Any], Any]) -> Any:
        """Return the hook, bound to the values of a call."""
        args, kwargs = [*map(shown, self.args)], {name: shown(each) for name, each in self.kwargs.items()}
        if isinstance(hook, partial):
            return partial(hook.func if self.inner is None else self.inner.bind(hook.func, shown), *args, **kwargs)
        if not isinstance(hook, FunctionType):
            return MethodType(hook.__func__, args[0]) if isinstance(hook, MethodType) else args[0]
        made = FunctionType(hook.__code__, hook.__globals__, hook.__name__, tuple(args), hook.__closure__)
        made.__kwdefaults__, made.__dict__ = kwargs, hook.__dict__
        return made


def bound_by(hook: Any, taken: Callable[[Any], Any]) -> Bound | None:
    """Return the values bound to a hook, with `taken` applied to each; None if that changes nothing."""
    inner = bound_by(hook.func, taken) if isinstance(hook, partial) else None
    args, kwargs = carried_by(hook)
    now = [*map(taken, args)], {name: taken(each) for name, each in kwargs.items()}
    same = all(one is other for one, other in zip((*now[0], *now[1].values()), (*args, *kwargs.values())))
    return None if same and inner is None else Bound(*now, inner)


def carried_by(hook: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a partial, the default values of a function, or the object of a method or of `__call__`."""
    if isinstance(hook, partial):
        return hook.args, hook.keywords
    if isinstance(hook, FunctionType):
        return hook.__defaults__ or (), hook.__kwdefaults__ or {}
    return (hook.__self__ if isinstance(hook, MethodType) else hook,), {}


def bound_to(hook: Any) -> list[Any]:
    """Return all that is bound to a hook, also if it is a partial of another one."""
    args, kwargs = carried_by(hook)
    return [*args, *kwargs.values(), *(bound_to(hook.func) if isinstance(hook, partial) else ())]


def function_of(hook: Any) -> Any:
    """Return the function of a partial, or the hook itself."""
    while isinstance(hook, partial):
        hook = hook.func
    return hook


def fixed_in(value: Any) -> tuple[Any, ...]:
    """Return the values that a callable holds in places that can't be refilled."""
    if isinstance(value, partial):
        return (*value.args, *value.keywords.values())
    if isinstance(value, (MethodType, BuiltinMethodType)):
        return (value.__self__,)
    kind = value if isinstance(value, type) else type(value)
    return tuple(vars(kind).values()) if purity.origin_of(kind) == "user" else ()
