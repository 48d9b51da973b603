"""Calls of builtin functions, and of those of the standard library that only compute.

`FUNCTIONS` is the table: a model by the id of the function. A model returns None if it does not apply; the
function is then called as any other.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import operator
from types import ModuleType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.certain_tests import agreed, answered, is_instance, truth
from undertow._src.compile.effects.findings import cell_of
from undertow._src.compile.effects.interface import Analysis, FunctionModel
from undertow._src.compile.effects.models.callbacks import is_callback
from undertow._src.compile.effects.models.items import dict_values, is_iterator, take_from, with_contents, write_into
from undertow._src.compile.effects.models.texts import show
from undertow._src.compile.effects.objects import MISSING, in_class, stored
from undertow._src.compile.effects.purity import is_tensor, is_users_function
from undertow._src.compile.effects.special_methods import LOOP, TEXT, TRUTH, of_function
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    MODULE,
    NONE,
    ONE,
    OPAQUE,
    PLAIN,
    TENSORISH,
    Atom,
    CallArguments,
    Concrete,
    Fresh,
    Method,
    Scope,
    Super,
    Value,
    class_of,
    few_strings,
    is_plain,
    only_string,
)
from undertow._src.compile.guards.settings import GUARDED
from undertow.nn import Module


def _plain_result(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    """Return a number, a string or the like."""
    _look_at(analysis, function, arguments.all(), node, deep=3)
    return ONE[PLAIN]


def _look_at(analysis: Analysis, function: Any, value: Value, node: Any, deep: int) -> None:
    """Record that a builtin reads its arguments and containers in them, and call the special methods that it calls."""
    if of_function(function) is TEXT:
        show(analysis, value, node)
    analysis.log.contents(value, deep)
    analysis.protocols(with_contents(analysis, value), node, names=of_function(function))


def _guarded(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    """Return the result of a function that guards call again before each call."""
    analysis.log.contents(arguments.all())
    return ONE[PLAIN]


def _id(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    analysis.log.identity(arguments.all())
    return _plain_result(analysis, function, arguments, node)


def _element_result(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    """Return one of the arguments, an element of one, or something computed from them."""
    everything = arguments.all()
    _look_at(analysis, function, everything, node, deep=1)
    _call_argument(analysis, function, arguments, node)
    walked = frozenset(atom for atom in everything if not is_callback(atom) and atom is not OPAQUE)
    result: set[Atom] = set()
    for atom in with_contents(analysis, walked):
        if isinstance(atom, Method):
            atom = atom.owner
        if atom in TENSORISH or (isinstance(atom, Concrete) and is_tensor(atom.value)):
            result.add(MADE)
        elif isinstance(atom, Fresh) or atom is OPAQUE or (isinstance(atom, Concrete) and not is_plain(atom.value)):
            result.add(atom)
        else:
            result.add(PLAIN)
    if OPAQUE in everything:
        result.add(OPAQUE)
    if function is functools.reduce and arguments.positional:
        result |= analysis.call(arguments.positional[0], CallArguments([], more=frozenset(result) or ONE[PLAIN]), node)
    return frozenset(result) or ONE[PLAIN]


def _call_argument(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> None:
    """Call the function that is passed to a builtin, such as the `key` of `sorted`."""
    if id(function) not in purity.CALLERS:
        return
    keyed = function in (sorted, min, max, itertools.groupby)
    called = arguments.keywords.get("key", EMPTY)
    others = arguments.positional
    if function is itertools.accumulate or function is itertools.groupby:
        called |= arguments.at(1)
    elif not keyed and others and (function is not iter or len(others) == 2):
        called, others = others[0], others[1:]
    given = EMPTY
    for value in (*others, arguments.more):
        given |= analysis.elements(value, node)
    if function is itertools.starmap:
        given = analysis.elements(given, node)
    result = analysis.call(called - {PLAIN, NONE}, CallArguments([], more=given or ONE[PLAIN]), node)
    if function in (iter, collections.defaultdict):
        analysis.heap.fresh(node, function, result)


def make_container(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    """Return the container, iterator or function that is made from the arguments."""
    everything = arguments.all()
    _look_at(analysis, function, everything, node, deep=1)
    _call_argument(analysis, function, arguments, node)
    if function in (functools.partial, functools.wraps, *purity.CONTEXTS):
        return analysis.heap.fresh(node, function, everything)
    contents = EMPTY
    for value in (*arguments.positional, *arguments.keywords.values(), arguments.more):
        contents |= analysis.elements(frozenset(atom for atom in value if not is_callback(atom)), node)
    if function in (object, itertools.count, itertools.repeat, collections.defaultdict):
        contents |= everything
    if isinstance(function, type) and function.__module__ == "itertools":
        contents |= analysis.heap.fresh_tuple(node, [contents, contents], function.__name__)
    return analysis.heap.fresh(node, function if isinstance(function, type) else list, contents)


def _evaluated(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value | None:
    """Return the result of a function that only reads, if its arguments are known exactly."""
    exact = [_exact(value) for value in arguments.positional]
    if not (MISSING in exact or arguments.keywords or arguments.maybe or arguments.more or arguments.more_keywords):
        with contextlib.suppress(TypeError, ValueError):
            result = analysis.once((id(function), *map(id, exact)), lambda: function(*exact), *exact)
            return frozenset([Concrete(result, f"{function.__name__}(…)")])
    return _plain_result(analysis, function, arguments, node) if id(function) in purity.PLAIN_RESULT else None


def _exact(value: Value) -> Any:
    """Return the object that a value certainly is, or the class of one that the code makes; else MISSING."""
    if len(value) == 1:
        (atom,) = value
        if isinstance(atom, Concrete):
            return atom.value
        if isinstance(atom, Fresh) and hasattr(atom.kind, "__dataclass_fields__"):
            return atom.kind
    return MISSING


def _zip(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    analysis.log.contents(arguments.all())
    items = [analysis.elements(value, node) for value in arguments.positional]
    if arguments.more:
        rest = analysis.elements(arguments.more, node)
        return analysis.heap.fresh(node, list, analysis.heap.fresh(node, tuple, EMPTY.union(rest, *items)))
    return analysis.heap.fresh(node, list, analysis.heap.fresh_tuple(node, items, "zip"))


def _enumerate(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    analysis.log.contents(arguments.all())
    inside = analysis.elements(arguments.positional[0], node) if arguments.positional else ONE[PLAIN]
    return analysis.heap.fresh(node, list, analysis.heap.fresh_tuple(node, [ONE[PLAIN], inside], "enumerate"))


def _dict(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    analysis.log.contents(arguments.all())
    inside = EMPTY.union(*arguments.keywords.values(), arguments.more_keywords)
    for value in arguments.positional:
        pairs = analysis.elements(value, node) | dict_values(analysis, value, node)
        inside |= pairs | analysis.elements(frozenset(atom for atom in pairs if isinstance(atom, Fresh)), node)
    return analysis.heap.fresh(node, dict, inside)


def _map(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    if not arguments.positional:
        return analysis.log.unknown("calls `map` with unpacked arguments", node)
    analysis.log.contents(arguments.all())
    given = [analysis.elements(value, node) for value in arguments.positional[1:]]
    result = analysis.call(
        arguments.positional[0], CallArguments(given, more=analysis.elements(arguments.more, node)), node
    )
    return analysis.heap.fresh(node, list, result)


def _getattr(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    names = few_strings(arguments.at(1))
    result = EMPTY
    for atom in arguments.first:
        for name in names or ():
            there = _has(analysis, atom, name)
            result |= EMPTY if there is False else analysis.attribute(atom, name, node)
            if not there:
                result = result.union(*arguments.positional[2:])
        if names is not None:
            continue
        result = result.union(*arguments.positional[2:])
        if isinstance(atom, Concrete) and isinstance(atom.value, ModuleType):
            for name in vars(atom.value):
                analysis.log.lookup(vars(atom.value), name)
        plain = atom is PLAIN or atom is NONE
        result |= ONE[PLAIN] if plain else analysis.log.unknown("reads an attribute whose name is not known", node)
    return result


def _hasattr(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    name = only_string(arguments.at(1))
    for atom in arguments.first:
        if name is not None and isinstance(atom, (Concrete, Fresh)):
            analysis.attribute(atom, name, node)
        elif isinstance(atom, Concrete):
            analysis.log.unknown("asks for an attribute whose name is not known", node)
    if name is None or not arguments.positional:
        return ONE[PLAIN]
    return answered(analysis.decides, agreed({_has(analysis, atom, name) for atom in arguments.positional[0]}))


def _has(analysis: Analysis, atom: Atom, name: str) -> bool | None:
    """Return whether an object from outside has an attribute, if that is certain."""
    if not analysis.decides or not isinstance(atom, Concrete) or isinstance(atom.value, ModuleType):
        return None
    value, kind = atom.value, type(atom.value)
    if isinstance(value, type) or is_tensor(value) or analysis.heap.written(value, name):
        return None
    if any(is_users_function(in_class(kind, special)) for special in ("__getattribute__", "__getattr__")):
        return None
    inherited = in_class(kind, name)
    if isinstance(inherited, property):
        return None  # which may raise
    analysis.log.place(value, name)
    if stored(value, name) is not MISSING or inherited is not MISSING:
        return True
    return False if in_class(kind, "__getattr__") is MISSING or isinstance(value, Module) else None


def _isinstance(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    if len(arguments.positional) != 2:
        return ONE[PLAIN]
    return answered(analysis.decides, is_instance(arguments.positional[0], _classes(arguments.positional[1])))


def _classes(value: Value) -> list[Any] | None:
    """Return the class that a value is, or the classes in a tuple; None if that is not certain."""
    if len(value) != 1:
        return None
    (atom,) = value
    if isinstance(atom, Concrete) and isinstance(atom.value, (type, tuple)):
        kinds = list(atom.value) if isinstance(atom.value, tuple) else [atom.value]
        return kinds if all(isinstance(kind, type) for kind in kinds) else None
    if isinstance(atom, Fresh) and atom.kind is tuple and atom.items and not atom.contents:
        inside = [_classes(item) for item in atom.items]
        return None if any(kinds is None for kinds in inside) else [kind for kinds in inside for kind in kinds or ()]
    return None


def _bool(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    analysis.log.contents(arguments.all())
    analysis.protocols(arguments.all(), node, names=TRUTH)
    return answered(analysis.decides, truth(arguments.positional[0]) if len(arguments.positional) == 1 else None)


def _setattr(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    name = only_string(arguments.at(1))
    value = EMPTY.union(*arguments.positional[2:])
    for atom in arguments.first:
        if name is None and isinstance(atom, Fresh):
            analysis.heap.add(atom, value)
        analysis.set_attribute(atom, name or "?", value, node)
    return ONE[NONE]


def _changer(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    """Change the first argument, by one of the functions in `purity.CHANGERS`."""
    _look_at(analysis, function, arguments.all(), node, deep=1)
    analysis.call(arguments.keywords.get("key", EMPTY), CallArguments([], more=ONE[PLAIN] | arguments.all()), node)
    others = EMPTY.union(*arguments.positional[1:], arguments.more) or ONE[PLAIN]
    found = arguments.first
    for atom in arguments.first:
        found |= analysis.elements(frozenset([atom]), node)
        write_into(analysis, atom, others, node, "an argument")
    return found | others | ONE[NONE]


def _set_item(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    """Set or delete an item, by a function of `operator`."""
    for atom in arguments.first:
        analysis.set_item(atom, arguments.at(1) or ONE[PLAIN], arguments.at(2) or ONE[PLAIN], node)
    return ONE[NONE]


def _next(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    result = EMPTY.union(*arguments.positional[1:])
    for atom in arguments.first:
        if isinstance(atom, Concrete) and is_iterator(atom.value):
            result |= take_from(analysis, atom, node)
            analysis.protocols(frozenset([atom]), node, names=LOOP)
        else:
            result |= analysis.elements(frozenset([atom]), node)
    return result


def _type(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    if len(arguments.positional) != 1:
        return analysis.log.unknown("makes a class", node)
    result = EMPTY
    for atom in arguments.positional[0]:
        kind = class_of(atom)
        if kind is not None:
            result |= frozenset([Concrete(kind, kind.__name__)])
        else:
            result |= ONE[PLAIN] if atom in TENSORISH or atom in (PLAIN, NONE, MODULE) else ONE[OPAQUE]
    return result


def _super(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    result = EMPTY
    for owner in arguments.at(1):
        for kind in arguments.at(0):
            if isinstance(kind, Concrete) and isinstance(kind.value, type):
                result |= frozenset([Super(kind.value, owner)])
    return result or analysis.log.unknown("calls `super` in an unusual way", node)


def own_super(analysis: Analysis, scope: Scope) -> Value:
    """Return `super()` without arguments: the class is in a cell, the object is the first parameter."""
    cell = cell_of(analysis.function, "__class__")
    outermost = scope
    while outermost.parent is not None:
        outermost = outermost.parent
    first = analysis.function.__code__.co_varnames[:1]
    if cell is None or not first:
        return analysis.log.unknown("calls `super` in an unusual way", None)
    return frozenset(Super(cell.cell_contents, owner) for owner in analysis.heap.variable(outermost, first[0]))


FUNCTIONS: dict[int, FunctionModel] = {
    **dict.fromkeys(purity.MAKERS, make_container),
    **dict.fromkeys(purity.ELEMENT_RESULT, _element_result),
    **dict.fromkeys(purity.CHANGERS, _changer),
    **dict.fromkeys(purity.PLAIN_RESULT, _plain_result),
    **dict.fromkeys(purity.EVALUATED, _evaluated),
    **dict.fromkeys(GUARDED, _guarded),
    **{
        id(function): model
        for function, model in (
            (getattr, _getattr), (hasattr, _hasattr), (setattr, _setattr), (delattr, _setattr), (next, _next),
            (type, _type), (super, _super), (zip, _zip), (enumerate, _enumerate), (dict, _dict), (map, _map),
            (isinstance, _isinstance), (bool, _bool), (id, _id),
            (operator.setitem, _set_item), (operator.delitem, _set_item),
        )
    },
}  # fmt: skip
