"""Calls: who is called, with what, and what comes back."""

from __future__ import annotations

import contextlib
import functools
import types
from functools import partial
from types import FunctionType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.graph import Notes
from undertow._src.compile.effects.objects import MISSING, in_class, instance_dict, is_namespace
from undertow._src.compile.effects.own_calls import OwnCalls
from undertow._src.compile.effects.protocols import TEXT, of_function
from undertow._src.compile.effects.reflection import UNSEEN, is_getter, special_functions
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    NONE,
    ONE,
    OPAQUE,
    OWN,
    PLAIN,
    TENSORISH,
    Arguments,
    Atom,
    Bound,
    Closure,
    Fresh,
    Known,
    Method,
    Value,
    is_plain,
)  # fmt: skip
from undertow._src.compile.guards.settings import GUARDED
from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.optim import Optimizer

_OF_ALL = {id(function) for function in (len, dir, sorted, list, tuple, set, dict, frozenset)}  # of names, say


def _keyword(call: Any, name: str) -> Any:
    return call.keywords.get(name, MISSING)


_SPECIAL = {
    id(function): function.__name__
    for function in (
        getattr, hasattr, setattr, delattr, next, type, super, zip, enumerate, dict, map, isinstance, bool,
    )
} | dict(special_functions())  # fmt: skip


class Calls(OwnCalls):
    """How calls find what they call."""

    def call(self, called: Value, arguments: Arguments, node: Any, entering: bool = False) -> Value:
        result = EMPTY
        for atom in called:
            result |= self.call_atom(atom, arguments, node, entering)
        return result

    def call_atom(self, atom: Atom, arguments: Arguments, node: Any, entering: bool = False) -> Value:
        if isinstance(atom, Known):
            return self._call_known(atom, arguments, node, entering)
        if isinstance(atom, Bound):
            return self.call_atom(atom.function, arguments.after(frozenset([atom.owner])), node)
        if isinstance(atom, Method):
            return self.call_method(atom, arguments, node)
        if isinstance(atom, Closure):
            atom.readers.add(self.frame)
            return self.enter_function(atom.node, atom.frame.function, atom.scope, atom, atom.defaults, arguments, node)
        if isinstance(atom, Fresh):
            return self._call_fresh(atom, arguments, node)
        if atom is OWN:
            self.call_back(arguments, node)
            return ONE[OWN]
        if atom in TENSORISH or atom in (PLAIN, NONE):
            return ONE[PLAIN]
        self.here.may_write = True
        self.change(OPAQUE)
        return self.unknown("calls something unknown", node)

    def _call_fresh(self, atom: Fresh, arguments: Arguments, node: Any) -> Value:
        if isinstance(atom.kind, type) and purity.origin_of(atom.kind) == "user":
            method = in_class(atom.kind, "__call__")
            if isinstance(method, FunctionType) and purity.origin_of(method) == "user":
                return self.call_function(method, arguments.after(frozenset([atom])), node)
            forward = in_class(atom.kind, "forward")
            if issubclass(atom.kind, Module) and isinstance(forward, FunctionType):
                return self.call_function(forward, arguments.after(frozenset([atom])), node)
            return ONE[PLAIN] if method is MISSING else self.unknown("calls an object that it made", node)
        if atom.kind is functools.wraps:
            return arguments.all()
        if self.decides and atom.kind in (list, tuple, dict, set, frozenset):
            return ONE[PLAIN]  # raises
        more = atom.elements() | arguments.all() if atom.kind is functools.partial else EMPTY
        inner = Arguments(
            arguments.positional, arguments.keywords, arguments.more | more, arguments.more_keywords | more
        )
        if more:
            inner.positional = []
        return ONE[PLAIN] | self.call(_callable_in(atom) - {PLAIN, NONE}, inner, node)

    # --- objects from outside

    def _call_known(self, atom: Known, arguments: Arguments, node: Any, entering: bool) -> Value:
        value = atom.value
        if is_plain(value) or not callable(value):
            return ONE[PLAIN]  # raises
        if id(value) in _SPECIAL:
            special = getattr(self, f"_call_{_SPECIAL[id(value)]}")
            found = special(arguments, node)
            if found is not None:
                return found
        if id(value) in GUARDED:
            self.use(arguments.all())
            return ONE[PLAIN]
        if id(value) in UNSEEN:
            return self.computed(f"calls `{UNSEEN[id(value)].removeprefix('builtins.')}`", node)
        if id(value) in purity.EVALUATED:
            found = self._evaluated(value, arguments)
            if found is not None:
                return found
        if isinstance(value, FunctionType):
            return self._call_python(atom, value, arguments, node)
        if isinstance(value, types.MethodType):
            name = atom.name.rpartition(".")[0] or getattr(value.__self__, "__name__", "self")
            owner = Known(value.__self__, name, lambda: atom.get().__self__)
            return self.call_atom(Known(value.__func__, atom.name), arguments.after(frozenset([owner])), node)
        if value is id:
            self.identity(arguments.all())
        if id(value) in _OF_ALL:
            for each in arguments.all():
                if isinstance(each, Known) and (is_namespace(each.value) or isinstance(each.value, types.ModuleType)):
                    return self.computed(f"goes through all of `{each.name}`", node)
        if id(value) in purity.PLAIN_RESULT:
            self.use(arguments.all(), deep=3)
            self.protocols(arguments.all() | self.inside(arguments.all()), node, names=of_function(value))
            return ONE[PLAIN]
        if id(value) in purity.ELEMENT_RESULT:
            return self._element_result(value, arguments, node)
        if id(value) in purity.MAKERS:
            return self.made_getter(value, arguments) or self._make(value, arguments, node)
        if is_getter(value):
            return self._call_getter(value, arguments, node)
        if isinstance(value, type):
            return self._construct(atom, arguments, node, entering)
        if isinstance(value, functools.partial):
            self.depends_on(atom.name, lambda: value.func, value.func, value)
            self.depends_on(f"arguments of {atom.name}", lambda: value.args, value.args, value)
            first = [self._part(atom, each, str(number)) for number, each in enumerate(value.args)]
            given = value.keywords
            named = {name: self._part(atom, each, name, partial(_keyword, value, name)) for name, each in given.items()}
            inner = arguments.after(*first)
            inner.keywords = {**named, **inner.keywords}
            return self.call_atom(Known(value.func, atom.name), inner, node)
        if isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            holder = value.__self__
            if holder is not None and not isinstance(holder, types.ModuleType):
                name = atom.name.rpartition(".")[0] or type(holder).__name__
                return self.call_method(Method(value.__name__, Known(holder, name)), arguments, node)
        if isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType)) and arguments.positional:
            result = EMPTY
            for owner_atom in arguments.positional[0]:
                result |= self.call_method(Method(value.__name__, owner_atom), arguments.rest(), node)
            return result
        if isinstance(value, Module) and in_class(type(value), "__call__") is in_class(Module, "__call__"):
            return self.call_module(atom, arguments, node)
        origin = purity.origin_of(value)
        if origin == "numpy":
            return self._call_numpy(value, getattr(value, "__name__", ""), arguments, node)
        if isinstance(value, functools._lru_cache_wrapper) and isinstance(value.__wrapped__, FunctionType):
            return self._call_cached(atom, value.__wrapped__, arguments, node)
        step = instance_dict(value).get("__wrapped__")
        if origin == "own" and isinstance(step, (FunctionType, types.MethodType)):  # it is compiled
            return self.call_atom(Known(step, atom.name), arguments, node)
        method = in_class(type(value), "__call__")
        if isinstance(method, FunctionType):
            if origin == "user":
                self.called(atom)
            return self.call_atom(Known(method, atom.name), arguments.after(frozenset([atom])), node)
        return self.outside_call(atom, arguments, node)

    def outside_call(self, atom: Known, arguments: Arguments, node: Any, field: str | None = None) -> Value:
        """Return a call of something that is not followed and may do anything, also with what it is given."""
        name = atom.name
        self.hold(arguments.all() | self.inside(arguments.all()))
        if isinstance(atom.value, FunctionType) and "." not in name:
            name = f"{atom.value.__module__}.{atom.value.__qualname__}"
        what = "prints" if atom.value is print else f"calls `{name}`"
        field = field or purity.field_of(atom.value)
        targets = self._given_away(arguments) if field == "unknown" else []
        for target in targets:
            self.place(target, None)
            self.store(target, None, ONE[PLAIN])
            self.effect("call", what, node, target, field=field)
        if not targets or purity.origin_of(atom.value) != "standard":
            self.effect("call", what, node, field=field)
        if purity.origin_of(atom.value) not in ("standard", "builtin"):
            self.here.may_write = True
        return ONE[NONE] if atom.value is print else ONE[OPAQUE]

    def _call_cached(self, atom: Known, function: FunctionType, arguments: Arguments, node: Any) -> Value:
        """Return a call of a function whose results are kept: what it does besides happens once, when it is traced as well.

        That is certain if each call has the same arguments; else it is not known what happens when.
        """
        same = all(atom is PLAIN or atom is NONE or isinstance(atom, Known) for atom in arguments.all())
        here, self.here = self.here, Notes()
        result = self.call_atom(Known(function, atom.name), arguments, node)
        followed, self.here = self.here, here
        what = f"calls `{atom.name}`"
        for frame in followed.calls:
            if frame not in here.cached:
                here.cached[frame] = self.effect_here("call", what, node, field="harmless" if same else "unknown")[1]
        if followed.effects:
            self.effect("call", what, node, field="harmless" if same else "unknown")
            here.may_write = here.may_write or not same
        return result

    def _evaluated(self, function: Any, arguments: Arguments) -> Value | None:
        """Return what a function that only looks gives, if it is known exactly what at."""
        exact = [_exact(value) for value in arguments.positional]
        if MISSING in exact or arguments.keywords or arguments.maybe or arguments.more or arguments.more_keywords:
            return None
        key = id(function), *map(id, exact)
        if key not in self.evaluated:  # what it makes is one object then, however often this is gone through
            try:
                self.evaluated[key] = frozenset([Known(function(*exact), f"{function.__name__}(…)")]), exact
            except (TypeError, ValueError):
                return None
        return self.evaluated[key][0]

    def _given_away(self, arguments: Arguments) -> list[Any]:
        """Objects from outside that code which is not followed may change: it is given them, or is a method of one."""
        known = [atom.value for atom in arguments.all() if isinstance(atom, Known) and not is_plain(atom.value)]
        return [value for value in known if not isinstance(value, (Tensor, Module, Optimizer)) and not callable(value)]

    def _part(self, atom: Known, value: Any, name: str, get: Any = None) -> Value:
        known = Known(value, f"{atom.name}.{name}", get)
        self.found(known, atom.value, name)
        return frozenset([known])

    def _call_python(self, atom: Known, function: FunctionType, arguments: Arguments, node: Any) -> Value:
        origin = purity.origin_of(function)
        if origin == "user":
            return self.call_function(function, arguments, node)
        if origin == "own":
            return self.call_own(atom, function, arguments, node)
        if origin == "numpy":
            return self._call_numpy(function, function.__name__, arguments, node)
        if origin == "einops":
            self.use(arguments.all(), deep=3)
            return ONE[MADE]
        if id(function) in purity.ELEMENT_RESULT:
            return self._element_result(function, arguments, node)
        if id(function) in purity.MAKERS:
            return self._make(function, arguments, node)
        inner = instance_dict(function).get("__wrapped__")
        if isinstance(inner, FunctionType):  # a context manager made of a generator, and the like
            if purity.origin_of(inner) == "own":
                return self.call_own(Known(inner, atom.name), inner, arguments, node)
            self.call_atom(Known(inner, atom.name), arguments, node)
            return self.outside_call(atom, arguments, node, "harmless")
        return self.outside_call(atom, arguments, node)

    # --- classes

    def _construct(self, atom: Known, arguments: Arguments, node: Any, entering: bool) -> Value:
        kind = atom.value
        origin = purity.origin_of(kind)
        if origin == "own":
            if purity.own_effect(kind.__name__, kind.__module__) and not (
                entering and kind.__name__.startswith("set_")
            ):
                self.effect("call", f"calls `{atom.name}`", node, field=purity.own_field(kind.__module__))
            self.use(arguments.all(), deep=3)
            self.call_back(arguments, node)
            return ONE[MADE] if kind.__name__ in ("Tensor", "Parameter") else ONE[OWN]
        if issubclass(kind, BaseException) and origin == "builtin":
            self.protocols(arguments.all(), node, names=TEXT)
            return self.fresh(node, BaseException, arguments.all())
        if origin == "numpy":
            return self._call_numpy(kind, kind.__name__, arguments, node)
        if origin != "user":
            return self.outside_call(atom, arguments, node)
        if hasattr(kind, "_member_map_"):
            return ONE[PLAIN]
        meta_call = in_class(type(kind), "__call__")
        if isinstance(meta_call, FunctionType) and purity.origin_of(meta_call) == "user":
            if self.frame is None or self.frame.within(meta_call) is None:
                return self.call_function(meta_call, arguments.after(frozenset([atom])), node)
        made = self.fresh(node, kind, EMPTY)
        (instance,) = made
        assert isinstance(instance, Fresh)
        if (issubclass(kind, tuple) and hasattr(kind, "_fields")) or not arguments.all() <= ONE[PLAIN]:
            generated = True
        else:
            generated = False
        new, init = in_class(kind, "__new__"), in_class(kind, "__init__")
        new = new.__func__ if isinstance(new, staticmethod) else new
        if (
            isinstance(new, FunctionType)
            and purity.origin_of(new) == "user"
            and not new.__code__.co_filename.startswith("<")
        ):
            made |= self.call_function(new, arguments.after(frozenset([atom])), node)
        if isinstance(init, FunctionType) and purity.origin_of(init) == "user":
            if init.__code__.co_filename.startswith("<") and hasattr(kind, "__dataclass_fields__"):
                self._construct_dataclass(kind, instance, arguments, node)
            else:
                self.call_function(init, arguments.after(frozenset([instance])), node)
        elif generated:
            self.put_into(instance, arguments.all())
        return made

    def _construct_dataclass(self, kind: Any, instance: Fresh, arguments: Arguments, node: Any) -> None:
        fields = [field for field in kind.__dataclass_fields__.values() if field.init]
        for field, value in zip(fields, arguments.positional):
            self.set_field(instance, field.name, value)
        for name, value in arguments.keywords.items():
            self.set_field(instance, name, value)
        self.put_into(instance, arguments.more | arguments.more_keywords)
        for field in kind.__dataclass_fields__.values():
            if callable(field.default_factory):
                made = self.call_atom(Known(field.default_factory, field.name), Arguments([]), node)
                self.set_field(instance, field.name, made)
        after = in_class(kind, "__post_init__")
        if isinstance(after, FunctionType):
            self.call_function(after, Arguments([frozenset([instance])], more=arguments.all()), node)

    def enter(self, atom: Atom, node: Any) -> tuple[Value, bool]:
        """Return what `with` gives, and whether errors surely pass through the block's end."""
        if atom is OWN:
            return ONE[OWN], True
        if isinstance(atom, Fresh) and atom.kind is contextlib.ExitStack:
            return frozenset([atom]), False
        if isinstance(atom, Fresh) and atom.kind in purity.CONTEXTS:
            return atom.contents | ONE[NONE], atom.kind is purity.CONTEXTS[0]
        kind: Any = type(atom.value) if isinstance(atom, Known) else getattr(atom, "kind", None)
        if isinstance(kind, type):
            if purity.origin_of(kind) == "own" and not purity.own_effect("", kind.__module__):
                return ONE[OWN], True
            begin, end = in_class(kind, "__enter__"), in_class(kind, "__exit__")
            if isinstance(begin, FunctionType) and isinstance(end, FunctionType) and purity.origin_of(kind) == "user":
                entered = self.call_atom(Known(begin, "__enter__"), Arguments([frozenset([atom])]), node)
                given = Arguments([frozenset([atom])], more=frozenset([NONE, PLAIN]))
                self.call_atom(Known(end, "__exit__"), given, node)
                return entered, purity.origin_of(end) == "own"
        name = atom.name if isinstance(atom, Known) else "something unknown"
        return self.unknown(f"enters `{name}`", node), False


def _exact(value: Value) -> Any:
    """Return the object that a value is for certain, or the class of one that the code makes; else MISSING."""
    if len(value) == 1:
        (atom,) = value
        if isinstance(atom, Known):
            return atom.value
        if isinstance(atom, Fresh) and hasattr(atom.kind, "__dataclass_fields__"):
            return atom.kind
    return MISSING


def _callable_in(atom: Fresh) -> Value:
    """Return what an object of the code's own holds, and those that it holds, each once: they may hold each other."""
    found: set[Atom] = set()
    waiting, seen = [atom], {atom}
    while waiting:
        for each in waiting.pop().elements():
            if not isinstance(each, Fresh) or (isinstance(each.kind, type) and purity.origin_of(each.kind) == "user"):
                found.add(each)
            elif each not in seen:
                seen.add(each)
                waiting.append(each)
    return frozenset(found)
