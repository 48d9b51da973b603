"""Instances of classes: making them, and entering those that are context managers."""

from __future__ import annotations

import ast
import contextlib
from types import FunctionType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.callbacks import call_back
from undertow._src.compile.effects.models.numpy_functions import call_numpy
from undertow._src.compile.effects.models.unfollowed import call_unfollowed
from undertow._src.compile.effects.objects import in_class
from undertow._src.compile.effects.purity import is_users_function
from undertow._src.compile.effects.special_methods import TEXT
from undertow._src.compile.effects.values import (
    MADE,
    NONE,
    ONE,
    OWN,
    PLAIN,
    Atom,
    CallArguments,
    Concrete,
    Fresh,
    Value,
    class_of,
)


def construct(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Return the result of calling a class."""
    kind = atom.value
    origin = purity.origin_of(kind)
    if origin == "user":
        return _construct_users(analysis, atom, arguments, node)
    if origin == "own":
        sets_mode = kind.__name__.startswith("set_") and _is_entered(analysis, node)  # until the block ends
        if purity.own_effect(kind.__name__, kind.__module__) and not sets_mode:
            analysis.log.effect("call", f"calls `{atom.name}`", node, field=purity.own_field(kind.__module__))
        analysis.log.contents(arguments.all(), deep=3)
        call_back(analysis, arguments, node)
        return ONE[MADE] if kind.__name__ in ("Tensor", "Parameter") else ONE[OWN]
    if issubclass(kind, BaseException) and origin == "builtin":
        analysis.protocols(arguments.all(), node, names=TEXT)
        return analysis.heap.fresh(node, BaseException, arguments.all())
    if origin == "numpy":
        return call_numpy(analysis, kind, kind.__name__, arguments, node)
    return call_unfollowed(analysis, atom, arguments, node)


def _is_entered(analysis: Analysis, node: Any) -> bool:
    """Return whether the current `with` statement enters an expression."""
    frame = analysis.at.frame
    statement = frame.path[-1] if frame is not None and frame.path else None
    return isinstance(statement, ast.With) and any(item.context_expr is node for item in statement.items)


def _construct_users(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    kind = atom.value
    if hasattr(kind, "_member_map_"):
        return ONE[PLAIN]
    meta_call = in_class(type(kind), "__call__")
    if is_users_function(meta_call):
        if analysis.at.frame is None or analysis.at.frame.within(meta_call) is None:
            return analysis.call_function(meta_call, arguments.after(frozenset([atom])), node)
    instance = analysis.heap.object(node, kind)
    made: Value = frozenset([instance])
    new, init = in_class(kind, "__new__"), in_class(kind, "__init__")
    new = new.__func__ if isinstance(new, staticmethod) else new
    if is_users_function(new) and not new.__code__.co_filename.startswith("<"):
        made |= analysis.call_function(new, arguments.after(frozenset([atom])), node)
    if is_users_function(init):
        if init.__code__.co_filename.startswith("<") and hasattr(kind, "__dataclass_fields__"):
            _construct_dataclass(analysis, kind, instance, arguments, node)
        else:
            analysis.call_function(init, arguments.after(frozenset([instance])), node)
    elif (issubclass(kind, tuple) and hasattr(kind, "_fields")) or not arguments.all() <= ONE[PLAIN]:
        analysis.heap.add(instance, arguments.all())
    return made


def _construct_dataclass(analysis: Analysis, kind: Any, instance: Fresh, arguments: CallArguments, node: Any) -> None:
    fields = [field for field in kind.__dataclass_fields__.values() if field.init]
    for field, value in zip(fields, arguments.positional):
        analysis.heap.set_field(instance, field.name, value)
    for name, value in arguments.keywords.items():
        analysis.heap.set_field(instance, name, value)
    analysis.heap.add(instance, arguments.more | arguments.more_keywords)
    for field in kind.__dataclass_fields__.values():
        if callable(field.default_factory):
            made = analysis.call_atom(Concrete(field.default_factory, field.name), CallArguments([]), node)
            analysis.heap.set_field(instance, field.name, made)
    after = in_class(kind, "__post_init__")
    if isinstance(after, FunctionType):
        analysis.call_function(after, CallArguments([frozenset([instance])], more=arguments.all()), node)


def enter(analysis: Analysis, atom: Atom, node: Any) -> tuple[Value, bool]:
    """Return the value that `with` binds, and whether exceptions certainly leave the block."""
    if atom is OWN:
        return ONE[OWN], True
    if isinstance(atom, Fresh) and atom.kind is contextlib.ExitStack:
        return frozenset([atom]), False
    if isinstance(atom, Fresh) and atom.kind is contextlib.closing:
        for each in atom.contents:
            analysis.call(analysis.attribute(each, "close", node), CallArguments([]), node)
        return atom.contents, False
    if isinstance(atom, Fresh) and atom.kind in purity.CONTEXTS:
        return atom.contents | ONE[NONE], atom.kind is purity.CONTEXTS[0]
    kind = class_of(atom)
    if kind is not None:
        if purity.origin_of(kind) == "own" and not purity.own_effect("", kind.__module__):
            return ONE[OWN], True
        begin, end = in_class(kind, "__enter__"), in_class(kind, "__exit__")
        if isinstance(begin, FunctionType) and isinstance(end, FunctionType) and purity.origin_of(kind) == "user":
            entered = analysis.call_atom(Concrete(begin, "__enter__"), CallArguments([frozenset([atom])]), node)
            given = CallArguments([frozenset([atom])], more=frozenset([NONE, PLAIN]))
            analysis.call_atom(Concrete(end, "__exit__"), given, node)
            return entered, purity.origin_of(end) == "own"
    name = atom.name if isinstance(atom, Concrete) else "something unknown"
    return analysis.log.unknown(f"enters `{name}`", node), False
