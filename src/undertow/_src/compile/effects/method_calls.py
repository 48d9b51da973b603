"""Calls of methods that have no Python code to read: of tensors, builtin containers and arrays."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.attributes import is_tensor
from undertow._src.compile.effects.objects import MISSING, element, is_namespace, stored
from undertow._src.compile.effects.reflection import Reflection
from undertow._src.compile.effects.state import ITEMS
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
    Arguments,
    Atom,
    Fresh,
    Known,
    Method,
    Namespace,
    Value,
    is_plain,
)  # fmt: skip
from undertow.autograd import Function

_OF_STRINGS = {"replace", "startswith", "endswith", "lower", "upper", "strip", "removeprefix", "removesuffix"}
_CONTAINERS = (list, tuple, dict, set, frozenset)


class MethodCalls(Reflection):
    """How such methods are called."""

    def call_method(self, method: Method, arguments: Arguments, node: Any) -> Value:
        owner, name = method.owner, method.name
        everything = arguments.all()
        if isinstance(owner, Namespace):
            return self._namespace_method(owner, name, arguments, node)
        if name == "__getattribute__":
            sought = self.constant(arguments, 0)
            if sought is None:
                return self.unknown("reads an attribute whose name is not known", node)
            if isinstance(owner, Known) and not isinstance(owner.value, type):
                return self.usual_attribute(owner, sought, node)
            return self.attribute(owner, sought, node)
        if isinstance(owner, Known) and not is_tensor(owner.value) and not is_plain(owner.value):
            return self._known_method(owner, name, arguments, node)
        if isinstance(owner, Known) and isinstance(owner.value, str) and name in _OF_STRINGS:
            return self._string_method(owner, name, arguments, node)
        self.use(everything, deep=2)
        if isinstance(owner, Fresh):
            return self._fresh_method(owner, name, arguments, node)
        if name in ("train", "eval"):
            self.blur("training")
        if owner is OWN and (name in ("train", "eval") or purity.own_effect(name, "undertow")):
            self.effect("call", f"calls `.{name}`", node, field="own")
            return ONE[OWN]
        if owner in TENSORISH or (isinstance(owner, Known) and is_tensor(owner.value)):
            return self._tensor_method(owner, name, arguments, node)
        self.protocols(everything | self.inside(everything), node)
        return ONE[PLAIN]

    def _string_method(self, owner: Known, name: str, arguments: Arguments, node: Any) -> Value:
        """Return what a string that is known makes of others that are."""
        given = [self.strings(value) for value in arguments.positional]
        exact = [each[0] for each in given if each and len(each) == 1]
        if len(exact) < len(given) or arguments.keywords or arguments.more:
            return ONE[PLAIN]
        result = getattr(str, name)(owner.value, *exact)
        if not isinstance(result, str):
            return self.answered(result)
        return frozenset([Known(result, repr(result))])

    def _namespace_method(self, namespace: Namespace, name: str, arguments: Arguments, node: Any) -> Value:
        """Return what is asked of an object's `__dict__`: a value under a name, or whatever may be done with all
        of them.
        """
        owner, sought = namespace.owner, self.constant(arguments, 0)
        if name == "get" and sought is not None:
            is_there = stored(owner.value, sought) is not MISSING
            absent = EMPTY if is_there else EMPTY.union(*arguments.positional[1:] or [ONE[NONE]])
            return self.in_namespace(owner, sought) | absent
        self.effect("update", f"reaches into `{owner.name}.__dict__`", node, owner.value)
        self.store(owner.value, None, ONE[PLAIN])
        return ONE[OPAQUE]

    def _tensor_method(self, owner: Atom, name: str, arguments: Arguments, node: Any) -> Value:
        if name in purity.REGISTRARS:
            if isinstance(owner, Known):
                self.effect("call", "registers a hook on a tensor from outside", node, owner.value, field="own")
            elif owner is not MADE:
                self.effect("call", "registers a hook on a tensor", node, field="own")
            return ONE[OWN]
        if name in purity.ON_GRAPH and owner is not MADE:
            self.effect("call", f"calls `.{name}()` of a tensor", node, field="own")
        self.call_back(arguments, node)
        if purity.draws(name):
            self.here.draws = True
        if name in purity.NO_RESULT or (name.endswith("_") and not name.endswith("__")):
            self.here.writes = True
        elif owner is OWN and not (name in purity.TENSOR_METHODS or name in purity.CONTAINER_METHODS):
            self.here.writes = True  # of an optimizer, say
        if name.startswith("__i") or "out" in arguments.keywords:
            self.here.writes = True
        if name in purity.NO_RESULT:
            return ONE[NONE]
        if owner is OWN:
            return ONE[OWN]
        if owner is TENSORS and name in purity.OWN_CHANGES:
            self.effect("call", f"{purity.PHRASES.get(name, 'changes')} what it is given", node, field="own")
            return frozenset([TENSORS, NONE])
        if owner is TENSORS and name in ("items", "get", "values", "keys"):
            pair = self.fresh_tuple(node, [ONE[PLAIN], frozenset([TENSOR, NONE])], "pair")
            answers = {"items": self.fresh(node, list, pair), "keys": self.fresh(node, set, ONE[PLAIN])}
            return answers.get(name, frozenset([TENSORS, NONE]))
        if name in purity.PLAIN_METHODS:
            return ONE[PLAIN]
        alias = ONE[TENSOR] if owner is not MADE else ONE[MADE]
        if (name.endswith("_") and not name.endswith("__")) or name in ("__iadd__", "__imul__", "__isub__"):
            return alias
        return ONE[MADE] | alias if name in purity.SAME_METHODS else ONE[MADE]

    def _fresh_method(self, owner: Fresh, name: str, arguments: Arguments, node: Any) -> Value:
        everything = arguments.all()
        if owner.kind in _CONTAINERS and not hasattr(owner.kind, name):
            return ONE[PLAIN]  # then it is something else: `sum` may give a list, or what is in it
        if owner.kind is ExitStack:
            return self._stack_method(owner, name, arguments, node)
        if name in ("tofile", "dump"):
            return self.unknown(f"calls `.{name}`", node)
        reads = any(issubclass(owner.kind or object, kind) and name in own for kind, own in purity.READING_METHODS)
        if not reads and not (owner.kind is None and name in purity.TENSOR_METHODS and not name.endswith("_")):
            self.change(owner)
        sought = self.constants(arguments, 0)
        if owner.named is not None and sought is not None and name in ("get", "pop", "setdefault", "__getitem__"):
            default = EMPTY.union(*arguments.positional[1:], *arguments.keywords.values()) or ONE[NONE]
            if name == "setdefault":
                for each in sought:
                    self.put_under(owner, each, default)
            return default.union(*[owner.named.get(each, EMPTY) for each in sought])
        if owner.kind is dict and name == "update" and not arguments.more and not arguments.more_keywords:
            for value in arguments.positional:
                self._put_all(owner, value, node)
            for key, value in (*arguments.keywords.items(), *arguments.maybe.items()):
                self.put_under(owner, key, value)
            return ONE[NONE]
        self.protocols(everything | self.inside(everything), node)
        if owner.kind is dict and name in ("get", "pop", "__getitem__", "__contains__"):  # nothing is put there
            return owner.elements().union(ONE[NONE], *arguments.positional[1:])
        inside = everything | self.elements(
            frozenset(a for a in everything if not self.is_callback(a)) - {OPAQUE}, node
        )
        if name in ("save_for_backward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads"):
            return ONE[NONE]
        if name == "sort":
            self.call(arguments.keywords.get("key", EMPTY), Arguments([], more=owner.elements() or ONE[PLAIN]), node)
        else:
            self.put_into(owner, inside)
        contents = owner.elements()
        if name == "items":
            pair = [owner.keys or ONE[PLAIN], contents or ONE[PLAIN]]
            return self.fresh(node, list, self.fresh_tuple(node, pair, "pair"))
        if name in ("append", "extend", "add", "update", "clear", "insert", "remove", "sort", "reverse", "discard"):
            return ONE[NONE]
        if owner.kind is None:
            return frozenset([owner, PLAIN]) | contents
        return frozenset([owner, NONE, PLAIN]) | contents

    def _under_keys(self, owner: Known, arguments: Arguments, node: Any) -> Value:
        """Return what a mapping from outside has under a key, or may have."""
        keys = arguments.positional[0] if arguments.positional else ONE[OPAQUE]
        absent = ONE[NONE].union(*arguments.positional[1:])
        exact = all(isinstance(key, Known) and isinstance(key.value, (str, int)) for key in keys)
        if not exact or type(owner.value) not in (dict, OrderedDict):
            return self.children(owner) | absent
        found = self.restored(owner.value, ITEMS)
        for key in keys:
            assert isinstance(key, Known)
            there = element(owner.value, key.value) is not MISSING
            found |= self.item(owner, key.value, keys, node) if there else absent
        return found

    def _stack_method(self, owner: Fresh, name: str, arguments: Arguments, node: Any) -> Value:
        """Return what is done with an `ExitStack`: as if it happened at once."""
        self.change(owner)
        first, rest = EMPTY.union(*arguments.positional[:1]), arguments.rest()
        if name == "enter_context":
            return EMPTY.union(*[self.enter(atom, node)[0] for atom in first])
        if name in ("callback", "push"):
            self.call(first, rest if name == "callback" else Arguments([ONE[NONE]] * 3), node)
            return first
        return frozenset([owner])

    def _known_method(self, owner: Known, name: str, arguments: Arguments, node: Any) -> Value:
        value = owner.value
        if isinstance(value, ContextVar):
            if name == "get":
                return self.read_of_variable(owner, arguments)
            self.effect("update", f"calls `{owner.name}.{name}`", node, value)
            return ONE[OPAQUE]
        if is_namespace(value):
            found = self.namespace_method(owner, name, arguments, node)
            if found is not None:
                return found
        if isinstance(value, np.ufunc):
            return self._call_numpy(value, name, arguments, node)
        if isinstance(value, np.ndarray) and not hasattr(np.ndarray, name):  # a tensor that shares its memory
            if name.endswith("_"):
                self.effect("update", f"writes into `{owner.name}`", node, value)
            return frozenset([MADE, owner])
        for kind, reading in purity.READING_METHODS:
            if isinstance(value, kind) and name in reading:
                break
        else:
            if isinstance(value, (tuple, frozenset, range)):
                self.use(frozenset([owner]), deep=1)
                return self.children(owner) | ONE[PLAIN] if isinstance(value, tuple) else ONE[PLAIN]
            if isinstance(value, Function) or (
                purity.origin_of(type(value)) == "own" and purity.origin_of(value) == "own"
            ):
                return ONE[OWN]
            self.store(value, ITEMS, arguments.all() | self.inside(arguments.all()))
            if type(value) in (dict, OrderedDict) and name in ("__setitem__", "update"):
                self.use(arguments.all(), deep=1)
                self.effect("store", f"stores into `{owner.name}`", node, value)
                return ONE[NONE]
            phrase = purity.PHRASES.get(name)
            if type(value) in (dict, OrderedDict) and name == "setdefault":
                self.use(arguments.all(), deep=1)
                self.effect("call", f"{phrase} `{owner.name}`", node, value)
                return (self.children(owner) if value else EMPTY).union(*arguments.positional[1:] or [ONE[NONE]])
            what = f"{phrase} `{owner.name}`" if phrase else f"calls `{owner.name}.{name}`"
            self.effect("call", what, node, value, field=purity.field_of(value))
            return ONE[OPAQUE] if name not in ("append", "extend", "add", "clear") else ONE[NONE]
        self.use(frozenset([owner]))
        self.use(arguments.all(), deep=1)
        self.protocols(arguments.all(), node)
        if isinstance(value, np.ndarray):
            for atom in arguments.keywords.get("out", EMPTY):
                if isinstance(atom, Known):
                    self.effect("store", f"writes into `{atom.name}`", node, atom.value)
            return frozenset([owner, PLAIN])
        children = self.children(owner)
        if name == "items":
            keys = self.elements(frozenset([owner]), node)
            return self.fresh(node, list, self.fresh_tuple(node, [keys, children], "pair"))
        if name == "keys":
            return self.fresh(node, set, self.elements(frozenset([owner]), node))
        if name in ("get", "__getitem__"):
            return self._under_keys(owner, arguments, node)
        if name in ("index", "count", "__len__", "__contains__") or name.startswith("is"):
            return ONE[PLAIN]
        return self.fresh(node, type(value) if name == "copy" else list, children)
