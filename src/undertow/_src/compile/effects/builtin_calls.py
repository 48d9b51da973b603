"""Calls of builtins and of NumPy."""

from __future__ import annotations

import collections
import functools
import itertools
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.attributes import is_tensor
from undertow._src.compile.effects.decisions import agreed, is_instance, truth
from undertow._src.compile.effects.elements import is_iterator
from undertow._src.compile.effects.findings import cell_of
from undertow._src.compile.effects.functions import Functions
from undertow._src.compile.effects.objects import MISSING, in_class, stored
from undertow._src.compile.effects.protocols import LOOP, TRUTH, of_function
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    MODULE,
    NONE,
    ONE,
    OPAQUE,
    PLAIN,
    TENSORISH,
    Arguments,
    Atom,
    Fresh,
    Known,
    Method,
    Scope,
    Super,
    Value,
    is_plain,
)  # fmt: skip
from undertow.nn import Module

MOST_STRINGS = 16


class BuiltinCalls(Functions):
    """How builtins are called."""

    def _call_numpy(self, function: Any, name: str, arguments: Arguments, node: Any) -> Value:
        module = getattr(function, "__module__", None) or ""
        if purity.numpy_effect(name, module):
            field = "random" if "random" in module else "output" if name in purity.NUMPY_FILES else "harmless"
            self.effect("call", f"calls `numpy.{name}`", node, field=field)
            return ONE[OPAQUE]
        written = [arguments.keywords.get("out", EMPTY), arguments.more_keywords]
        if name in purity.NUMPY_FILLERS:
            written += arguments.positional[:1]
        if isinstance(function, np.ufunc):
            written += arguments.positional[function.nin if name == function.__name__ else 3 :]
        for atom in EMPTY.union(*written):
            if isinstance(atom, Known) and not is_plain(atom.value):
                self.effect("store", f"writes into `{atom.name}`", node, atom.value)
            elif atom is OPAQUE:
                self.effect("store", "writes into an array that is unknown", node)
        self.use(arguments.all() - EMPTY.union(*written), deep=3)
        self.protocols(arguments.all() | self.inside(arguments.all()), node)
        alias = frozenset(
            atom for atom in arguments.all() if isinstance(atom, Known) and isinstance(atom.value, np.ndarray)
        )
        return self.fresh(node, None, ONE[PLAIN]) | alias

    def _element_result(self, function: Any, arguments: Arguments, node: Any) -> Value:
        everything = arguments.all()
        self.use(everything, deep=1)
        self.protocols(everything | self.inside(everything), node, names=of_function(function))
        self._call_key(function, arguments, node)
        walked = frozenset(atom for atom in everything if not self.is_callback(atom) and atom is not OPAQUE)
        result: set[Atom] = set()
        for atom in walked | self.inside(walked):
            if isinstance(atom, Method):
                atom = atom.owner
            if atom in TENSORISH or (isinstance(atom, Known) and is_tensor(atom.value)):
                result.add(MADE)
            elif isinstance(atom, Known) and not is_plain(atom.value):
                result.add(atom)
            elif isinstance(atom, Fresh) or atom is OPAQUE:
                result.add(atom)
            else:
                result.add(PLAIN)
        if OPAQUE in everything:
            result.add(OPAQUE)
        if function is functools.reduce and arguments.positional:
            result |= self.call(arguments.positional[0], Arguments([], more=frozenset(result) or ONE[PLAIN]), node)
        return frozenset(result) or ONE[PLAIN]

    def _call_key(self, function: Any, arguments: Arguments, node: Any) -> None:
        if id(function) not in purity.CALLERS:
            return
        keyed = function in (sorted, min, max, itertools.groupby)
        called = arguments.keywords.get("key", EMPTY)
        others = arguments.positional
        if function is itertools.accumulate or function is itertools.groupby:
            called |= arguments.positional[1] if len(others) > 1 else EMPTY
        elif not keyed and others and (function is not iter or len(others) == 2):
            called, others = others[0], others[1:]
        given = EMPTY
        for value in (*others, arguments.more):
            given |= self.elements(value, node)
        if function is itertools.starmap:
            given = self.elements(given, node)
        result = self.call(called - {PLAIN, NONE}, Arguments([], more=given or ONE[PLAIN]), node)
        if function in (iter, collections.defaultdict):
            self.fresh(node, function, result)

    def _make(self, function: Any, arguments: Arguments, node: Any) -> Value:
        """Containers and iterators made of what they are given."""
        self.use(arguments.all(), deep=1)
        self.protocols(arguments.all() | self.inside(arguments.all()), node, names=of_function(function))
        self._call_key(function, arguments, node)
        if function in (functools.partial, functools.wraps, functools.update_wrapper) or function in purity.CONTEXTS:
            return self.fresh(node, function, arguments.all())
        inside = EMPTY
        for value in (*arguments.positional, *arguments.keywords.values(), arguments.more):
            inside |= self.elements(frozenset(atom for atom in value if not self.is_callback(atom)), node)
        if function in (object, itertools.count, itertools.repeat, collections.defaultdict):
            inside |= arguments.all()
        if isinstance(function, type) and function.__module__ == "itertools":
            inside |= self.fresh_tuple(node, [inside, inside], function.__name__)
        return self.fresh(node, function if isinstance(function, type) else list, inside)

    def _call_zip(self, arguments: Arguments, node: Any) -> Value:
        self.use(arguments.all())
        items = [self.elements(value, node) for value in arguments.positional]
        if arguments.more:
            rest = self.elements(arguments.more, node)
            return self.fresh(node, list, self.fresh(node, tuple, EMPTY.union(rest, *items)))
        return self.fresh(node, list, self.fresh_tuple(node, items, "zip"))

    def _call_enumerate(self, arguments: Arguments, node: Any) -> Value:
        self.use(arguments.all())
        inside = self.elements(arguments.positional[0], node) if arguments.positional else ONE[PLAIN]
        return self.fresh(node, list, self.fresh_tuple(node, [ONE[PLAIN], inside], "enumerate"))

    def _call_dict(self, arguments: Arguments, node: Any) -> Value:
        self.use(arguments.all())
        inside = EMPTY.union(*arguments.keywords.values(), arguments.more_keywords)
        for value in arguments.positional:
            pairs = self.elements(value, node) | self.dict_values(value, node)
            inside |= pairs | self.elements(frozenset(atom for atom in pairs if isinstance(atom, Fresh)), node)
        return self.fresh(node, dict, inside)

    def _call_map(self, arguments: Arguments, node: Any) -> Value:
        if not arguments.positional:
            return self.unknown("calls `map` with unpacked arguments", node)
        self.use(arguments.all())
        given = [self.elements(value, node) for value in arguments.positional[1:]]
        result = self.call(arguments.positional[0], Arguments(given, more=self.elements(arguments.more, node)), node)
        return self.fresh(node, list, result)

    def _call_getattr(self, arguments: Arguments, node: Any) -> Value:
        names = self.constants(arguments, 1)
        result = EMPTY
        for atom in arguments.positional[0] if arguments.positional else ONE[OPAQUE]:
            for name in names or ():
                there = self.has(atom, name)
                result |= EMPTY if there is False else self.attribute(atom, name, node)
                if not there:
                    result = result.union(*arguments.positional[2:])
            if names is not None:
                continue
            result = result.union(*arguments.positional[2:])
            if isinstance(atom, Known) and isinstance(atom.value, ModuleType):
                for name in vars(atom.value):
                    self.looked_up(vars(atom.value), name)
            plain = atom is PLAIN or atom is NONE
            result |= ONE[PLAIN] if plain else self.unknown("reads an attribute whose name is not known", node)
        return result

    def _call_hasattr(self, arguments: Arguments, node: Any) -> Value:
        name = self.constant(arguments, 1)
        for atom in arguments.positional[0] if arguments.positional else ONE[OPAQUE]:
            if name is not None and isinstance(atom, (Known, Fresh)):
                self.attribute(atom, name, node)
            elif isinstance(atom, Known):
                self.unknown("asks for an attribute whose name is not known", node)
        if name is None or not arguments.positional:
            return ONE[PLAIN]
        return self.answered(agreed({self.has(atom, name) for atom in arguments.positional[0]}))

    def has(self, atom: Atom, name: str) -> bool | None:
        """Whether an object from outside has an attribute, if that is certain."""
        if not self.decides or not isinstance(atom, Known) or isinstance(atom.value, ModuleType):
            return None
        value, kind = atom.value, type(atom.value)
        if isinstance(value, type) or is_tensor(value) or self.restored(value, name):
            return None
        for special in ("__getattribute__", "__getattr__"):
            method = in_class(kind, special)
            if isinstance(method, FunctionType) and purity.origin_of(method) == "user":
                return None
        inherited = in_class(kind, name)
        if isinstance(inherited, property):
            return None  # which may raise
        self.place(value, name)
        if stored(value, name) is not MISSING or inherited is not MISSING:
            return True
        return False if in_class(kind, "__getattr__") is MISSING or isinstance(value, Module) else None

    def answered(self, answer: bool | None) -> Value:
        """Return a truth value, which may be known."""
        return ONE[PLAIN] if answer is None or not self.decides else frozenset([Known(answer, str(answer))])

    def _call_isinstance(self, arguments: Arguments, node: Any) -> Value:
        if len(arguments.positional) != 2:
            return ONE[PLAIN]
        return self.answered(is_instance(arguments.positional[0], self._classes(arguments.positional[1])))

    def _classes(self, value: Value) -> list[Any] | None:
        """Return the classes that a value is, or a tuple of; None if that is not certain."""
        if len(value) != 1:
            return None
        (atom,) = value
        if isinstance(atom, Known) and isinstance(atom.value, (type, tuple)):
            kinds = list(atom.value) if isinstance(atom.value, tuple) else [atom.value]
            return kinds if all(isinstance(kind, type) for kind in kinds) else None
        if isinstance(atom, Fresh) and atom.kind is tuple and atom.items and not atom.contents:
            inside = [self._classes(item) for item in atom.items]
            return (
                None if any(kinds is None for kinds in inside) else [kind for kinds in inside for kind in kinds or ()]
            )
        return None

    def _call_bool(self, arguments: Arguments, node: Any) -> Value:
        self.use(arguments.all())
        self.protocols(arguments.all(), node, names=TRUTH)
        return self.answered(truth(arguments.positional[0]) if len(arguments.positional) == 1 else None)

    def _call_setattr(self, arguments: Arguments, node: Any) -> Value:
        name = self.constant(arguments, 1)
        value = EMPTY.union(*arguments.positional[2:])
        for atom in arguments.positional[0] if arguments.positional else ONE[OPAQUE]:
            if name is None and isinstance(atom, Fresh):
                self.put_into(atom, value)
            self.store_attribute(atom, name or "?", value, node)
        return ONE[NONE]

    def _call_delattr(self, arguments: Arguments, node: Any) -> Value:
        return self._call_setattr(arguments, node)

    def constant(self, arguments: Arguments, number: int) -> str | None:
        """Return an argument that is one certain string."""
        names = self.constants(arguments, number)
        return names[0] if names and len(names) == 1 else None

    def constants(self, arguments: Arguments, number: int) -> list[str] | None:
        """Return the strings that an argument may be, if it is none but those."""
        if len(arguments.positional) <= number:
            return None
        return self.strings(arguments.positional[number])

    def strings(self, value: Value) -> list[str] | None:
        """Return the strings that a value may be, if it is none but those, and few."""
        found = [atom.value for atom in value if isinstance(atom, Known) and isinstance(atom.value, str)]
        return found if 0 < len(found) == len(value) <= MOST_STRINGS else None

    def _call_next(self, arguments: Arguments, node: Any) -> Value:
        result = EMPTY.union(*arguments.positional[1:])
        for atom in arguments.positional[0] if arguments.positional else ONE[OPAQUE]:
            if isinstance(atom, Known) and is_iterator(atom.value):
                self.effect("call", f"takes from the iterator `{atom.name}`", node, atom.value, field="iterator")
                self.protocols(frozenset([atom]), node, names=LOOP)
                result |= ONE[OPAQUE]
            else:
                result |= self.elements(frozenset([atom]), node)
        return result

    def _call_type(self, arguments: Arguments, node: Any) -> Value:
        if len(arguments.positional) != 1:
            return self.unknown("makes a class", node)
        result = EMPTY
        for atom in arguments.positional[0]:
            if isinstance(atom, Known):
                kind = type(atom.value)
                result |= frozenset([Known(kind, kind.__name__)])
            elif isinstance(atom, Fresh) and isinstance(atom.kind, type):
                result |= frozenset([Known(atom.kind, atom.kind.__name__)])
            elif atom in (PLAIN, NONE, MODULE) or atom in TENSORISH:
                result |= ONE[PLAIN]
            else:
                result |= ONE[OPAQUE]
        return result

    def _call_super(self, arguments: Arguments, node: Any) -> Value:
        result = EMPTY
        kinds = arguments.positional[0] if arguments.positional else EMPTY
        for owner in arguments.positional[1] if len(arguments.positional) > 1 else EMPTY:
            for kind in kinds:
                if isinstance(kind, Known) and isinstance(kind.value, type):
                    result |= frozenset([Super(kind.value, owner)])
        return result or self.unknown("calls `super` in an unusual way", node)

    def own_super(self, scope: Scope) -> Value:
        """`super()` without arguments: the class is in a cell, the object is the first parameter."""
        cell = cell_of(self.function, "__class__")
        outermost = scope
        while outermost.parent is not None:
            outermost = outermost.parent
        first = self.function.__code__.co_varnames[:1]
        if cell is None or not first:
            return self.unknown("calls `super` in an unusual way", None)
        return frozenset(Super(cell.cell_contents, owner) for owner in self.variable(outermost, first[0]))
