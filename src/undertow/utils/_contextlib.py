"""Context managers that can also be used as decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["context_decorator"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to run inside a context, created for each call if `ctx` is a factory.

    The body of a generator runs inside the context; the code between its steps runs outside.
    """
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isgeneratorfunction(func):

        @functools.wraps(func)
        def steps(*args: Any, **kwargs: Any) -> Any:
            generator = func(*args, **kwargs)
            sent, failed = None, None
            while True:
                try:
                    with make():
                        item = generator.send(sent) if failed is None else generator.throw(failed)
                except StopIteration as end:
                    return end.value
                try:
                    sent, failed = (yield item), None
                except GeneratorExit:
                    with make():
                        generator.close()
                    raise
                except BaseException as error:
                    sent, failed = None, error

        return steps

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return inside


class _DecoratorContextManager:
    """A context manager that may also decorate a function; `clone` makes the one for each call."""

    def __call__(self, orig_func: Callable[..., Any]) -> Callable[..., Any]:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Return a new context manager like this one; override if `__init__` takes arguments."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A variant without arguments, which can decorate without parentheses too."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)
