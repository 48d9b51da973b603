"""Callbacks: functions of the user that unanalyzed code may call."""

from __future__ import annotations

import functools
import types
from types import FunctionType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.items import with_contents
from undertow._src.compile.effects.objects import MISSING, in_class
from undertow._src.compile.effects.purity import is_tensor, is_users_class
from undertow._src.compile.effects.values import (
    NONE,
    ONE,
    PLAIN,
    TENSOR,
    TENSORS,
    Atom,
    Bound,
    CallArguments,
    Closure,
    Concrete,
    Fresh,
    Method,
    Value,
    class_of,
    is_plain,
)
from undertow.autograd import Function
from undertow.nn import Module


def wrapped_user_functions(function: FunctionType) -> Value:
    """Return the user's functions that a function of undertow wraps, as by `@no_grad()`."""
    found, waiting, seen = set(), [function], {function}
    while waiting:
        for cell in waiting.pop().__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            if isinstance(value, FunctionType) and purity.origin_of(value) == "own":
                if value not in seen:
                    seen.add(value)
                    waiting.append(value)
            elif callable(value) and is_users(value):
                found.add(Concrete(value, getattr(value, "__name__", type(value).__name__)))
    return frozenset(found)


def is_users(value: Any) -> bool:
    """Return whether calling a value runs code that a user wrote."""
    if isinstance(value, types.MethodType):
        return is_users(value.__func__) or (not isinstance(value.__self__, type) and is_users(value.__self__))
    if isinstance(value, functools.partial):
        return is_users(value.func)
    if isinstance(value, FunctionType) and purity.origin_of(value) == "own":
        return bool(value.__closure__) and bool(wrapped_user_functions(value))
    if isinstance(value, type):
        return is_users_class(value) and not issubclass(value, (Module, Function))
    return isinstance(value, Module) or (callable(value) and purity.origin_of(value) == "user")


def is_callback(atom: Atom) -> bool:
    """Return whether a value is a function that matters when undertow calls it."""
    if isinstance(atom, (Closure, Bound)):
        return True
    if isinstance(atom, Method):
        return isinstance(atom.owner, Concrete) and not is_plain(atom.owner.value) and not is_tensor(atom.owner.value)
    if isinstance(atom, Fresh):
        has_call = is_users_class(atom.kind) and in_class(atom.kind, "__call__") is not MISSING
        return atom.kind is functools.partial or has_call
    if not isinstance(atom, Concrete) or not callable(atom.value) or is_plain(atom.value):
        return False
    if isinstance(atom.value, (types.BuiltinFunctionType, types.BuiltinMethodType)):
        computes = id(atom.value) in purity.PLAIN_RESULT or id(atom.value) in purity.ELEMENT_RESULT
        return not (computes or purity.origin_of(atom.value) == "numpy")
    if isinstance(atom.value, FunctionType) and purity.origin_of(atom.value) == "standard":
        return True
    return is_users(atom.value)


def call_back(analysis: Analysis, arguments: CallArguments, node: Any, given: Value | None = None) -> None:
    """Call the user's functions among the arguments, as undertow may do."""
    everything = with_contents(analysis, arguments.all())
    if given is None:
        given = frozenset(atom for atom in everything if not is_callback(atom)) | {TENSOR, NONE}
    for atom in everything:
        if is_callback(atom):
            analysis.call_atom(atom, CallArguments([], more=given), node)


def call_overrides(analysis: Analysis, owner: Atom, origin: str, node: Any) -> None:
    """Call the methods of a user's class that override those of its base class, from undertow or the standard library."""
    given = ONE[TENSORS] if origin == "own" else ONE[PLAIN]
    kind = class_of(owner)
    if kind is None or purity.origin_of(kind) != "user" or issubclass(kind, Module):
        return
    for parent in kind.__mro__:
        if purity.origin_of(parent) != "user":
            continue
        for name, method in vars(parent).items():
            if isinstance(method, FunctionType) and not name.startswith("__"):
                theirs = in_class(kind, name, parent)
                if isinstance(theirs, FunctionType) and purity.origin_of(theirs) == origin:
                    users = purity.origin_of(method) != "own"  # an optimizer's step is wrapped by undertow
                    called = frozenset([Concrete(method, name)]) if users else wrapped_user_functions(method)
                    analysis.call(called, CallArguments([frozenset([owner])], more=given), node)
