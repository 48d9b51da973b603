"""Calls of code that is not analyzed: C extensions, the standard library."""

from __future__ import annotations

import dis
import inspect
import logging
import threading
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.callbacks import call_back
from undertow._src.compile.effects.models.items import with_contents
from undertow._src.compile.effects.objects import in_class
from undertow._src.compile.effects.purity import is_users_function
from undertow._src.compile.effects.values import (
    EMPTY,
    NONE,
    ONE,
    OPAQUE,
    PLAIN,
    CallArguments,
    Concrete,
    Value,
    class_of,
    is_plain,
)
from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.optim import Optimizer

_PAUSES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def call_unfollowed(
    analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any, field: str | None = None
) -> Value:
    """Call unknown code, which may do anything, also to its arguments."""
    name = atom.name
    analysis.log.held(with_contents(analysis, arguments.all()))
    if isinstance(atom.value, FunctionType) and "." not in name:
        name = f"{atom.value.__module__}.{atom.value.__qualname__}"
    what = "prints" if atom.value is print else f"calls `{name}`"
    field = field or purity.field_of(atom.value)
    if field == "output":
        _call_back(analysis, atom.value, arguments, node)
    targets = _given_away(arguments) if field == "unknown" else []
    for target in targets:
        analysis.log.place(target, None)
        analysis.heap.write(target, None, ONE[PLAIN])
        analysis.log.effect("call", what, node, target, field=field)
    if not targets or purity.origin_of(atom.value) != "standard":
        analysis.log.effect("call", what, node, field=field)
    if purity.origin_of(atom.value) not in ("standard", "builtin"):
        analysis.log.unfollowed_call()
    if field == "clock":
        return ONE[PLAIN]
    return ONE[NONE] if atom.value is print or _returns_nothing(atom.value) else ONE[OPAQUE]


def _returns_nothing(function: Any) -> bool:
    """Return whether the code of a Python function returns nothing but None."""
    if not isinstance(function, FunctionType) or function.__code__.co_flags & _PAUSES:
        return False
    before: Any = None
    for each in dis.get_instructions(function):
        if each.opname == "RETURN_VALUE":
            if each.is_jump_target or before.opname != "LOAD_CONST" or before.argval is not None:
                return False
        elif each.opname == "RETURN_CONST" and each.argval is not None:
            return False
        before = each
    return True


def _call_back(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> None:
    """Call the user's code that a thread or a logger runs: passed functions, `run`, handlers and filters."""
    call_back(analysis, arguments, node, EMPTY)
    owners = [(owner, "run") for owner in arguments.first] if function is threading.Thread.start else []
    if isinstance(function, FunctionType) and function.__module__ == "logging":
        loggers = [atom.value for atom in arguments.first if isinstance(atom, Concrete)]
        for part in _parts_of(loggers[0] if loggers and isinstance(loggers[0], logging.Logger) else logging.root):
            owners += [(Concrete(part, type(part).__name__), name) for name in ("filter", "format", "emit")]
    for owner, name in owners:
        if is_users_function(in_class(class_of(owner) or object, name)):
            analysis.call(analysis.attribute(owner, name, node), CallArguments([], more=ONE[OPAQUE]), node)


def _parts_of(logger: logging.Logger | None) -> Iterator[Any]:
    """Yield the objects that process a record: the handlers of a logger and its parents, filters and formatters."""
    while logger is not None:
        yield from logger.filters
        for handler in logger.handlers:
            yield from (handler, *handler.filters, handler.formatter)
        logger = logger.parent if logger.propagate else None


def _given_away(arguments: CallArguments) -> list[Any]:
    """Return the objects from outside among the arguments that code which is not analyzed may change."""
    known = [atom.value for atom in arguments.all() if isinstance(atom, Concrete) and not is_plain(atom.value)]
    return [value for value in known if not isinstance(value, (Tensor, Module, Optimizer)) and not callable(value)]
