"""Calls: which model a call goes to."""

from __future__ import annotations

import ast
import functools
import operator
import types
import weakref
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.call_graph import Notes
from undertow._src.compile.effects.interface import Analysis, FunctionModel
from undertow._src.compile.effects.models import builtin_functions, reflection
from undertow._src.compile.effects.models.c_methods import call_method
from undertow._src.compile.effects.models.callbacks import call_back
from undertow._src.compile.effects.models.classes import construct
from undertow._src.compile.effects.models.numpy_functions import call_numpy
from undertow._src.compile.effects.models.undertow_calls import call_module, call_own
from undertow._src.compile.effects.models.unfollowed import call_unfollowed, give_filled
from undertow._src.compile.effects.objects import MISSING, in_class, instance_dict, order_of
from undertow._src.compile.effects.purity import is_users_class, is_users_function
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    NONE,
    ONE,
    OPAQUE,
    OWN,
    PLAIN,
    TENSORISH,
    Atom,
    Bound,
    CallArguments,
    Closure,
    Concrete,
    Fresh,
    InstanceDict,
    Method,
    Simple,
    Super,
    Value,
    is_plain,
)
from undertow.nn import Module


def call(analysis: Analysis, atom: Atom, arguments: CallArguments, node: Any) -> Value:
    """Return the result of a call: by the kind of the callee, then by the function or the type of the object."""
    return _BY_ATOM[type(atom)](analysis, atom, arguments, node)


def _call_bound(analysis: Analysis, atom: Bound, arguments: CallArguments, node: Any) -> Value:
    return call(analysis, atom.function, arguments.after(frozenset([atom.owner])), node)


def _call_closure(analysis: Analysis, atom: Closure, arguments: CallArguments, node: Any) -> Value:
    return analysis.call_closure(atom, arguments, node)


def _call_simple(analysis: Analysis, atom: Atom, arguments: CallArguments, node: Any) -> Value:
    if atom is OWN:
        call_back(analysis, arguments, node)
        return ONE[OWN]
    if atom in TENSORISH or atom in (PLAIN, NONE):
        return ONE[PLAIN]
    analysis.log.unfollowed_call()
    analysis.log.change(OPAQUE)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        give_filled(analysis, node.func.attr, arguments, f"calls `.{node.func.attr}`", node)
    return analysis.log.unknown("calls something unknown", node)


def _call_fresh(analysis: Analysis, atom: Fresh, arguments: CallArguments, node: Any) -> Value:
    """Call an object that the code made: of a user's class, a partial function, or a container of functions."""
    if is_users_class(atom.kind):
        method = in_class(atom.kind, "__call__")
        if is_users_function(method):
            return analysis.call_function(method, arguments.after(frozenset([atom])), node)
        forward = in_class(atom.kind, "forward")
        if issubclass(atom.kind, Module) and isinstance(forward, FunctionType):
            return analysis.call_function(forward, arguments.after(frozenset([atom])), node)
        return ONE[PLAIN] if method is MISSING else analysis.log.unknown("calls an object that it made", node)
    if atom.kind is functools.wraps:
        return arguments.all()
    if atom.kind is operator.methodcaller:
        return reflection.call_methodcaller(analysis, atom, arguments, node)
    if analysis.decides and atom.kind in (list, tuple, dict, set, frozenset):
        return ONE[PLAIN]  # raises
    more = atom.elements() | arguments.all() if atom.kind is functools.partial else EMPTY
    inner = CallArguments(
        arguments.positional, arguments.keywords, arguments.more | more, arguments.more_keywords | more
    )
    if more:
        inner.positional = []
    return ONE[PLAIN] | analysis.call(_callable_in(atom) - {PLAIN, NONE}, inner, node)


def _callable_in(atom: Fresh) -> Value:
    """Return the callables in an object made by the code, directly or through other such objects (with cycles)."""
    found: set[Atom] = set()
    waiting, seen = [atom], {atom}
    while waiting:
        for each in waiting.pop().elements():
            if not isinstance(each, Fresh) or is_users_class(each.kind):
                found.add(each)
            elif each not in seen:
                seen.add(each)
                waiting.append(each)
    return frozenset(found)


# --- objects from outside


def _call_known(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    value = atom.value
    if is_plain(value) or not callable(value):
        return ONE[PLAIN]  # raises
    model = _FUNCTIONS.get(id(value))
    found = model(analysis, value, arguments, node) if model is not None else None
    if found is not None:
        return found
    for kind in order_of(type(value)):
        by_type = _BY_TYPE.get(kind)
        found = by_type(analysis, atom, arguments, node) if by_type is not None else None
        if found is not None:
            return found
    return _call_instance(analysis, atom, arguments, node)


def _call_python(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Call a Python function, depending on the owner of its code."""
    function = atom.value
    origin = purity.origin_of(function)
    if origin == "user":
        return analysis.call_function(function, arguments, node)
    if origin == "own":
        return call_own(analysis, atom, function, arguments, node)
    if origin == "numpy":
        return call_numpy(analysis, function, function.__name__, arguments, node)
    if origin == "einops":
        analysis.log.contents(arguments.all(), deep=3)
        return ONE[MADE]
    inner = instance_dict(function).get("__wrapped__")
    if not isinstance(inner, FunctionType):
        return call_unfollowed(analysis, atom, arguments, node)
    if purity.origin_of(inner) == "own":  # a context manager made of a generator, and the like
        return call_own(analysis, Concrete(inner, atom.name), inner, arguments, node)
    analysis.call_atom(Concrete(inner, atom.name), arguments, node)
    return call_unfollowed(analysis, atom, arguments, node, "harmless")


def _call_bound_method(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    method = atom.value
    name = atom.name.rpartition(".")[0] or getattr(method.__self__, "__name__", "self")
    owner = Concrete(method.__self__, name, lambda: atom.get().__self__)
    return analysis.call_atom(Concrete(method.__func__, atom.name), arguments.after(frozenset([owner])), node)


def _call_partial(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    value = atom.value
    analysis.log.depends_on(atom.name, lambda: value.func, value.func, value)
    analysis.log.depends_on(f"arguments of {atom.name}", lambda: value.args, value.args, value)

    def part(given: Any, name: str, get: Callable[[], Any] | None = None) -> Value:
        known = Concrete(given, f"{atom.name}.{name}", get)
        analysis.log.read(known, value, name)
        return frozenset([known])

    inner = arguments.after(*[part(each, str(number)) for number, each in enumerate(value.args)])
    named = {name: part(each, name, partial(_keyword, value, name)) for name, each in value.keywords.items()}
    inner.keywords = {**named, **inner.keywords}
    return analysis.call_atom(Concrete(value.func, atom.name), inner, node)


def _keyword(call: functools.partial[Any], name: str) -> Any:
    return call.keywords.get(name, MISSING)


def _call_c_function(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value | None:
    """Call a bound method of a C type; None for a function of a module."""
    holder = atom.value.__self__
    if holder is None or isinstance(holder, types.ModuleType):
        return None
    name = atom.name.rpartition(".")[0] or type(holder).__name__
    return call_method(analysis, Method(atom.value.__name__, Concrete(holder, name)), arguments, node)


def _call_c_method(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value | None:
    """Call a method of a C type, such as `list.append`, with its object as the first argument."""
    if not arguments.positional:
        return None
    result = EMPTY
    for owner in arguments.positional[0]:
        result |= call_method(analysis, Method(atom.value.__name__, owner), arguments.rest(), node)
    return result


def _call_module(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value | None:
    if in_class(type(atom.value), "__call__") is not in_class(Module, "__call__"):
        return None
    return call_module(analysis, atom, arguments, node)


def _call_cached(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value | None:
    """Call a function with a cache (`lru_cache`): it runs at its first call only, in eager mode as in a trace. That is
    certain only if all calls have the same arguments; otherwise it is unknown which calls have effects.
    """
    function = atom.value.__wrapped__
    if not isinstance(function, FunctionType):
        return None
    given = [*node.args, *[each.value for each in node.keywords]] if isinstance(node, ast.Call) else [node]
    same = all(atom is NONE or isinstance(atom, Concrete) for atom in arguments.all())
    same = same or all(isinstance(each, ast.Constant) for each in given)
    what, field = f"calls `{atom.name}`", "harmless" if same else ""
    here, analysis.at.notes = analysis.at.notes, Notes()
    result = analysis.call_atom(Concrete(function, atom.name), arguments, node)
    followed, analysis.at.notes = analysis.at.notes, here
    for frame in followed.calls:
        if frame not in here.cached:
            _, here.cached[frame] = analysis.log.effect_here("call", what, node, field=field)
    if followed.effects:
        analysis.log.effect("call", what, node, field=field)
        here.may_write = here.may_write or not same
    return result


def _call_reference(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Call a weak reference, which returns its object."""
    value = atom.value()
    if value is None:
        return call_unfollowed(analysis, atom, arguments, node)
    return frozenset([Concrete(value, f"{atom.name}()", lambda: atom.get()())])


def _call_alias(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Call a class with a subscript (`list[int]`), which makes an instance of the class."""
    return analysis.call_atom(Concrete(atom.value.__origin__, atom.name), arguments, node)


def _call_proxy(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Call an object through a weak proxy."""
    return analysis.call_atom(Concrete(_behind(atom.value), atom.name, lambda: _behind(atom.get())), arguments, node)


def _behind(proxy: Any) -> Any:
    return proxy.__dir__.__self__


def _call_instance(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Call any other object, through its `__call__` if that can be read."""
    value = atom.value
    origin = purity.origin_of(value)
    if origin == "numpy":  # `np.poly1d`, `np.vectorize`
        parts = frozenset([Concrete(part, f"{atom.name}.{name}") for name, part in instance_dict(value).items()])
        analysis.log.contents(parts, deep=1)
        call_back(analysis, CallArguments([parts]), node)
        return call_numpy(analysis, value, getattr(value, "__name__", ""), arguments, node)
    step = instance_dict(value).get("__wrapped__")
    if origin == "own" and isinstance(step, (FunctionType, types.MethodType)):  # it is compiled
        return analysis.call_atom(Concrete(step, atom.name), arguments, node)
    method = in_class(type(value), "__call__")
    if not isinstance(method, FunctionType):
        return call_unfollowed(analysis, atom, arguments, node)
    if origin == "user":
        analysis.log.class_called(atom)
    return analysis.call_atom(Concrete(method, atom.name), arguments.after(frozenset([atom])), node)


_FUNCTIONS: dict[int, FunctionModel] = {**builtin_functions.FUNCTIONS, **reflection.FUNCTIONS}
_BY_TYPE: dict[type, Callable[[Analysis, Concrete, CallArguments, Any], Value | None]] = {
    FunctionType: _call_python,
    types.MethodType: _call_bound_method,
    type: construct,
    functools.partial: _call_partial,
    functools._lru_cache_wrapper: _call_cached,
    weakref.ref: _call_reference,
    weakref.CallableProxyType: _call_proxy,
    types.BuiltinFunctionType: _call_c_function,
    types.MethodWrapperType: _call_c_function,
    types.MethodDescriptorType: _call_c_method,
    types.WrapperDescriptorType: _call_c_method,
    Module: _call_module,
    **dict.fromkeys(purity.ALIASES, _call_alias),
    **dict.fromkeys(reflection.GETTERS, reflection.call_getter),
}
_BY_ATOM: dict[type[Atom], Callable[[Analysis, Any, CallArguments, Any], Value]] = {
    Concrete: _call_known,
    Bound: _call_bound,
    Method: call_method,
    Closure: _call_closure,
    Fresh: _call_fresh,
    Simple: _call_simple,
    Super: _call_simple,
    InstanceDict: _call_simple,
}
