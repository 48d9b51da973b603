"""Calls of methods that have no Python code: of tensors, builtin containers, arrays and strings."""

from __future__ import annotations

from collections import OrderedDict, deque
from contextlib import ExitStack
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.certain_tests import answered
from undertow._src.compile.effects.heap import ITEMS
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.attributes import default_lookup, in_instance_dict
from undertow._src.compile.effects.models.callbacks import call_back, is_callback
from undertow._src.compile.effects.models.items import add_all, children, inside, with_contents
from undertow._src.compile.effects.models.namespaces import namespace_method
from undertow._src.compile.effects.models.numpy_functions import call_numpy
from undertow._src.compile.effects.models.reflection import read_context_variable
from undertow._src.compile.effects.models.texts import show
from undertow._src.compile.effects.models.unfollowed import give_filled
from undertow._src.compile.effects.objects import MISSING, element, is_namespace, stored
from undertow._src.compile.effects.purity import is_tensor
from undertow._src.compile.effects.special_methods import HASHED, LOOP
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    NONE,
    ONE,
    OPAQUE,
    OWN,
    PLAIN,
    TENSOR,
    TENSORISH,
    TENSORS,
    Atom,
    CallArguments,
    Concrete,
    Fresh,
    InstanceDict,
    Method,
    Value,
    few_strings,
    is_plain,
    known_string,
    only_string,
)
from undertow.autograd import Function

_OF_STRINGS = {"replace", "startswith", "endswith", "lower", "upper", "strip", "removeprefix", "removesuffix"}
_CONTAINERS = (list, tuple, dict, set, frozenset)


def call_method(analysis: Analysis, method: Method, arguments: CallArguments, node: Any) -> Value:
    """Call a method, by the kind of its owner."""
    owner, name = method.owner, method.name
    everything = arguments.all()
    if isinstance(owner, InstanceDict):
        return _instance_dict_method(analysis, owner, name, arguments, node)
    if name == "__getattribute__":
        sought = only_string(arguments.at(0))
        if sought is None:
            return analysis.log.unknown("reads an attribute whose name is not known", node)
        if isinstance(owner, Concrete) and not isinstance(owner.value, type):
            return default_lookup(analysis, owner, sought, node)
        return analysis.attribute(owner, sought, node)
    if isinstance(owner, Concrete) and not is_tensor(owner.value) and not is_plain(owner.value):
        return _known_method(analysis, owner, name, arguments, node)
    if isinstance(owner, Concrete) and isinstance(owner.value, str) and name in _OF_STRINGS:
        return _string_method(analysis, owner, name, arguments, node)
    analysis.log.contents(everything, deep=2)
    if isinstance(owner, Fresh):
        return _fresh_method(analysis, owner, name, arguments, node)
    if name in ("train", "eval"):
        analysis.heap.write_any("training")
    if owner is OWN and (name in ("train", "eval") or purity.own_effect(name, "undertow")):
        analysis.log.effect("call", f"calls `.{name}`", node, field="own")
        return ONE[OWN]
    if owner in TENSORISH or (isinstance(owner, Concrete) and is_tensor(owner.value)):
        return _tensor_method(analysis, owner, name, arguments, node)
    if name in ("format", "format_map"):
        show(analysis, everything, node)
    analysis.protocols(with_contents(analysis, everything), node)
    return ONE[PLAIN]


_FILLED = (list, dict, set, deque, bytearray)
_FILLING = {
    "appendleft",
    "extendleft",
    "insert",
    "remove",
    "discard",
    "update",
    "sort",
    "reverse",
}  # which return nothing


def _string_method(analysis: Analysis, owner: Concrete, name: str, arguments: CallArguments, node: Any) -> Value:
    """Return the result of a method of a known string, if its arguments are known strings."""
    given = [only_string(value) for value in arguments.positional]
    if None in given or arguments.keywords or arguments.more:
        return ONE[PLAIN]
    result = getattr(str, name)(owner.value, *given)
    if not isinstance(result, str):
        return answered(analysis.decides, result)
    return known_string(result)


def _instance_dict_method(
    analysis: Analysis, namespace: InstanceDict, name: str, arguments: CallArguments, node: Any
) -> Value:
    """Call a method of an object's `__dict__`: it reads one name, or may do anything with all of them."""
    owner, sought = namespace.owner, only_string(arguments.at(0))
    if name == "get" and sought is not None:
        is_there = stored(owner.value, sought) is not MISSING
        absent = EMPTY if is_there else EMPTY.union(*arguments.positional[1:] or [ONE[NONE]])
        return in_instance_dict(analysis, owner, sought) | absent
    analysis.log.effect("update", f"reaches into `{owner.name}.__dict__`", node, owner.value)
    analysis.heap.write(owner.value, None, ONE[PLAIN])
    return ONE[OPAQUE]


def _tensor_method(analysis: Analysis, owner: Atom, name: str, arguments: CallArguments, node: Any) -> Value:
    """Call a method of a tensor, of a container of tensors, or of an object of undertow."""
    in_place = name.endswith("_") and not name.endswith("__")
    if name in purity.REGISTRARS:
        if isinstance(owner, Concrete):
            analysis.log.effect("call", "registers a hook on a tensor from outside", node, owner.value, field="own")
        elif owner is not MADE:
            analysis.log.effect("call", "registers a hook on a tensor", node, field="own")
        analysis.log.tensor_write()  # so it is not moved to the host, where the tensor is a copy without a graph
        return ONE[OWN]
    if name in purity.ON_GRAPH and owner is not MADE:
        analysis.log.effect("call", f"calls `.{name}()` of a tensor", node, field="own")
    call_back(analysis, arguments, node, ONE[OWN] if owner is OWN and name == "then" else None)  # with the future
    if purity.draws(name):
        analysis.log.random_draw()
    acts = owner is OWN and not (name in purity.TENSOR_METHODS or name in purity.CONTAINER_METHODS)  # an optimizer
    if in_place or acts or name in purity.NO_RESULT or name.startswith("__i") or "out" in arguments.keywords:
        analysis.log.tensor_write()
    if name in purity.NO_RESULT:
        return ONE[NONE]
    if owner is OWN:
        return ONE[OWN]
    if owner is TENSORS and name in purity.OWN_CHANGES:
        analysis.log.effect("call", f"{purity.PHRASES.get(name, 'changes')} what it is given", node, field="own")
        return frozenset([TENSORS, NONE])
    if owner is TENSORS and name in ("items", "get", "values", "keys"):
        if name == "items":
            return analysis.heap.pairs(node, ONE[PLAIN], frozenset([TENSOR, NONE]))
        return analysis.heap.fresh(node, set, ONE[PLAIN]) if name == "keys" else frozenset([TENSORS, NONE])
    if name in purity.PLAIN_METHODS:
        return ONE[PLAIN]
    alias = ONE[TENSOR] if owner is not MADE else ONE[MADE]
    if in_place or name in ("__iadd__", "__imul__", "__isub__"):
        return alias
    return ONE[MADE] | alias if name in purity.SAME_METHODS else ONE[MADE]


def _fresh_method(analysis: Analysis, owner: Fresh, name: str, arguments: CallArguments, node: Any) -> Value:
    """Call a method of a container, an array or a context that the code made."""
    everything = arguments.all()
    if owner.kind in _CONTAINERS and not hasattr(owner.kind, name):
        return ONE[PLAIN]  # then it is something else: `sum` may return a list, or an element of it
    if owner.kind is ExitStack:
        return _stack_method(analysis, owner, name, arguments, node)
    if name in ("tofile", "dump"):
        return analysis.log.unknown(f"calls `.{name}`", node)
    reads = any(issubclass(owner.kind or object, kind) and name in own for kind, own in purity.READING_METHODS)
    if not reads and not (owner.kind is None and name in purity.TENSOR_METHODS and not name.endswith("_")):
        analysis.log.change(owner)
    sought = few_strings(arguments.at(0))
    if owner.named is not None and sought is not None and name in ("get", "pop", "setdefault", "__getitem__"):
        default = EMPTY.union(*arguments.positional[1:], *arguments.keywords.values()) or ONE[NONE]
        if name == "setdefault":
            for each in sought:
                analysis.heap.add_entry(owner, each, default)
        return default.union(*[owner.named.get(each, EMPTY) for each in sought])
    if owner.kind is dict and name == "update" and not arguments.more and not arguments.more_keywords:
        for value in arguments.positional:
            add_all(analysis, owner, value, node)
        for key, value in (*arguments.keywords.items(), *arguments.maybe.items()):
            analysis.heap.add_entry(owner, key, value)
        return ONE[NONE]
    analysis.protocols(with_contents(analysis, everything), node)
    if owner.kind is dict and name in ("get", "pop", "__getitem__", "__contains__"):  # nothing is stored there
        return owner.elements().union(ONE[NONE], *arguments.positional[1:])
    walked = frozenset(atom for atom in everything if not is_callback(atom) and atom is not OPAQUE)
    put = everything | analysis.elements(walked, node)
    if name in ("save_for_backward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads"):
        return ONE[NONE]
    if name == "sort":
        analysis.call(
            arguments.keywords.get("key", EMPTY), CallArguments([], more=owner.elements() or ONE[PLAIN]), node
        )
    else:
        analysis.heap.add(owner, put)
    contents = owner.elements()
    if name == "items":
        return analysis.heap.pairs(node, owner.keys or ONE[PLAIN], contents or ONE[PLAIN])
    if name in ("append", "extend", "add", "update", "clear", "insert", "remove", "sort", "reverse", "discard"):
        return ONE[NONE]
    return contents | {owner, PLAIN} if owner.kind is None else contents | {owner, NONE, PLAIN}


def _under_keys(analysis: Analysis, owner: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Return the value of a mapping from outside for a key, or its possible values."""
    keys = arguments.first
    absent = ONE[NONE].union(*arguments.positional[1:])
    exact = all(isinstance(key, Concrete) and isinstance(key.value, (str, int)) for key in keys)
    if not exact or type(owner.value) not in (dict, OrderedDict):
        return children(analysis, owner) | absent
    found = analysis.heap.written(owner.value, ITEMS)
    for key in keys:
        assert isinstance(key, Concrete)
        there = element(owner.value, key.value) is not MISSING
        found |= analysis.item(owner, key.value, keys, node) if there else absent
    return found


def _stack_method(analysis: Analysis, owner: Fresh, name: str, arguments: CallArguments, node: Any) -> Value:
    """Call a method of an `ExitStack`; the effects at its end are recorded at once."""
    analysis.log.change(owner)
    first, rest = arguments.at(0), arguments.rest()
    if name == "enter_context":
        return EMPTY.union(*[analysis.enter(atom, node)[0] for atom in first])
    if name in ("callback", "push"):
        analysis.call(first, rest if name == "callback" else CallArguments([ONE[NONE]] * 3), node)
        return first
    return frozenset([owner])


def _known_method(analysis: Analysis, owner: Concrete, name: str, arguments: CallArguments, node: Any) -> Value:
    """Call a method of an object from outside."""
    value, itself = owner.value, frozenset([owner])
    if isinstance(value, ContextVar):
        if name == "get":
            return read_context_variable(analysis, owner, arguments)
        analysis.log.effect("update", f"calls `{owner.name}.{name}`", node, value)
        return ONE[OPAQUE]
    if is_namespace(value):
        found = namespace_method(analysis, owner, name, arguments, node)
        if found is not None:
            return found
    if isinstance(value, np.ufunc):
        return call_numpy(analysis, value, name, arguments, node)
    if isinstance(value, np.ndarray) and not hasattr(np.ndarray, name):  # a tensor that shares its memory
        if name.endswith("_"):
            analysis.log.effect("update", f"writes into `{owner.name}`", node, value)
        return frozenset([MADE, owner])
    if not any(isinstance(value, kind) and name in reading for kind, reading in purity.READING_METHODS):
        return _changing_method(analysis, owner, name, arguments, node)
    analysis.log.contents(itself)
    analysis.log.contents(arguments.all(), deep=1)
    analysis.protocols(arguments.all(), node)
    if isinstance(value, np.ndarray):
        for atom in arguments.keywords.get("out", EMPTY):
            if isinstance(atom, Concrete):
                analysis.log.effect("store", f"writes into `{atom.name}`", node, atom.value)
        return frozenset([owner, PLAIN])
    if name == "items":
        return analysis.heap.pairs(node, analysis.elements(itself, node), children(analysis, owner))
    if name == "keys":
        return analysis.heap.fresh(node, set, analysis.elements(itself, node))
    if name in ("get", "__getitem__"):
        return _under_keys(analysis, owner, arguments, node)
    if name in ("index", "count", "__len__", "__contains__") or name.startswith("is"):
        return ONE[PLAIN]
    return analysis.heap.fresh(node, type(value) if name == "copy" else list, children(analysis, owner))


def _changing_method(analysis: Analysis, owner: Concrete, name: str, arguments: CallArguments, node: Any) -> Value:
    """Call a method that is not known to only read."""
    value = owner.value
    if isinstance(value, (tuple, frozenset, range)):
        analysis.log.contents(frozenset([owner]), deep=1)
        return children(analysis, owner) | ONE[PLAIN] if isinstance(value, tuple) else ONE[PLAIN]
    if isinstance(value, Function) or (purity.origin_of(type(value)) == "own" and purity.origin_of(value) == "own"):
        return ONE[OWN]
    inner = inside(analysis, owner)
    if isinstance(value, MappingProxyType) and len(inner) == 1:
        return call_method(analysis, Method(name, inner[0]), arguments, node)
    for each in inner:
        analysis.heap.write(each.value, ITEMS, with_contents(analysis, arguments.all()))
        analysis.log.effect("call", f"changes `{owner.name}`", node, each.value)
    analysis.heap.write(value, ITEMS, with_contents(analysis, arguments.all()))
    is_dict = type(value) in (dict, OrderedDict)
    if is_dict and name in ("__setitem__", "update"):
        analysis.log.contents(arguments.all(), deep=1)
        analysis.protocols(arguments.all(), node, names=(*LOOP, *HASHED, "keys"))
        analysis.log.effect("store", f"stores into `{owner.name}`", node, value)
        return ONE[NONE]
    if name not in purity.STORING:
        analysis.protocols(arguments.all(), node)
    phrase = purity.PHRASES.get(name)
    what = f"{phrase} `{owner.name}`" if phrase else f"calls `{owner.name}.{name}`"
    field = purity.field_of(value)
    analysis.log.effect("call", what, node, value, field=field)
    if field == "random":
        analysis.log.contents(arguments.all(), deep=1)  # it may draw among them
    if field:
        give_filled(analysis, name, arguments, what, node)
    if is_dict and name == "setdefault":
        analysis.log.contents(arguments.all(), deep=1)
        return (children(analysis, owner) if value else EMPTY).union(*arguments.positional[1:] or [ONE[NONE]])
    is_nothing = name in ("append", "extend", "add", "clear") or (isinstance(value, _FILLED) and name in _FILLING)
    return ONE[NONE] if is_nothing else ONE[OPAQUE]
