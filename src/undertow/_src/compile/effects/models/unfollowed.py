"""Calls of code that is not analyzed: C extensions, the standard library."""

from __future__ import annotations

import dis
import functools
import inspect
import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.callbacks import call_back, is_callback
from undertow._src.compile.effects.models.items import inside, with_contents
from undertow._src.compile.effects.objects import entries_of, held_by, in_class, instance_dict, is_namespace
from undertow._src.compile.effects.purity import is_users_function
from undertow._src.compile.effects.syntax_trees import definition
from undertow._src.compile.effects.values import (
    EMPTY,
    NONE,
    ONE,
    OPAQUE,
    PLAIN,
    Atom,
    Bound,
    CallArguments,
    Concrete,
    Fresh,
    Method,
    Value,
    class_of,
    is_plain,
)
from undertow._src.compile.guards.code_names import names_of
from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.optim import Optimizer

_MOST_FOUND = 1000  # objects that code without source may change
NO_SOURCE = "has no source to read"
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
    if field == "output" or purity.calls_back(atom.value):
        _call_back(analysis, atom.value, arguments, node)
    if field == "random":
        analysis.log.contents(arguments.all(), deep=1)  # it may draw among them
    targets = _given_away(arguments) if field == "unknown" else []
    behind = [each.value for atom in arguments.all() if isinstance(atom, Concrete) for each in inside(analysis, atom)]
    for target in [*targets, *(behind if field == "unknown" else ())]:
        _give(analysis, target, None, what, node)
    if field == "unknown" or atom.value is threading.Thread.start:
        _give_made(analysis, arguments)
    else:
        give_filled(analysis, getattr(atom.value, "__name__", ""), arguments, what, node)
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


def _give(analysis: Analysis, owner: Any, name: str | None, what: str, node: Any) -> None:
    """Record that code which is not analyzed may read and change a place."""
    analysis.log.place(owner, name)
    analysis.heap.write(owner, name, ONE[PLAIN])
    analysis.log.effect("call", what, node, owner, name, field="unknown")


def give_filled(analysis: Analysis, name: str, arguments: CallArguments, what: str, node: Any) -> None:
    """Record that a call may fill its arguments, by the name of what is called: `shuffle(order)`, `random(out=array)`."""
    filled = arguments
    if name not in purity.FILLERS:
        places = arguments.positional[2:] if name in purity.FILLERS_OF_THIRD else []
        out = (each.get("out", EMPTY) for each in (arguments.keywords, arguments.maybe))
        filled = CallArguments([*places, *out])
    for target in _given_away(filled):
        _give(analysis, target, None, what, node)
    _give_made(analysis, filled)


def _give_made(analysis: Analysis, arguments: CallArguments) -> None:
    """Record that code which is not analyzed may change the objects that the code has made and passes to it."""
    put = frozenset(atom for atom in arguments.all() if not is_callback(atom)) | ONE[PLAIN]
    waiting, seen = [*arguments.all()], set[Atom]()
    while waiting:
        atom = waiting.pop()
        if atom in seen:
            continue
        seen.add(atom)
        if isinstance(atom, (Bound, Method)):
            waiting.append(atom.owner)
        elif isinstance(atom, Fresh):
            waiting += atom.all_held()
            analysis.heap.add(atom, put - {atom})
            analysis.log.change(atom)


def call_sourceless(analysis: Analysis, function: FunctionType, arguments: CallArguments, node: Any) -> Value:
    """Call a function of the user that has no source: it may do anything with all that it finds."""
    called = "" if analysis.at.frame is None else f"calls `{function.__qualname__}`, which "
    what = f"{called}{NO_SOURCE}"
    analysis.log.unfollowed_call()
    if analysis.at.frame is None:  # a hook, which finds what the step has changed by then
        return analysis.log.unknown(what, node)
    for owner, name in _found_by(function, [atom.value for atom in arguments.all() if isinstance(atom, Concrete)]):
        _give(analysis, owner, name, what, node)
    _give_made(analysis, arguments)
    return analysis.log.unknown(what, node)


def _found_by(function: FunctionType, given: list[Any]) -> Iterator[tuple[Any, str | None]]:
    """Yield the places that a function without source may change: what it is given, what it names, and their parts."""
    waiting, seen = [function, *given], set[int]()
    while waiting and len(seen) < _MOST_FOUND:
        each = waiting.pop()
        if id(each) in seen or is_plain(each) or isinstance(each, (Tensor, Module, Optimizer, type, ModuleType)):
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            if purity.origin_of(each) == "user" and definition(each) is None:
                names = names_of(each.__code__)
                yield from ((each.__globals__, name) for name in names.stored)
                waiting += [each.__globals__[name] for name in names.globals if name in each.__globals__]
                waiting += [*(each.__closure__ or ()), *(each.__defaults__ or ()), each.__kwdefaults__]
        elif isinstance(each, MethodType):
            waiting += [each.__self__, each.__func__]
        elif isinstance(each, functools.partial):
            waiting += [each.func, *each.args, *each.keywords.values()]
        elif not isinstance(each, BuiltinFunctionType) and not is_namespace(each):
            yield each, None
            waiting += [*_held_by(each), *instance_dict(each).values()]


def _held_by(value: Any) -> Any:
    """Return what a variable or a container holds."""
    if isinstance(value, CellType):
        with suppress(ValueError):  # it has no value yet
            return [value.cell_contents]
    if isinstance(value, dict):
        return entries_of(value).values()
    return held_by(value) if isinstance(value, (list, tuple, set, frozenset, deque)) else ()
