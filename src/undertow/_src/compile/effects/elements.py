"""Elements of values, writing into them, and operators."""

from __future__ import annotations

import collections
from types import FunctionType
from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.attributes import Attributes, is_tensor
from undertow._src.compile.effects.objects import (
    MISSING,
    element,
    entries_of,
    held_by,
    in_class,
    instance_dict,
    is_namespace,
)
from undertow._src.compile.effects.protocols import EVERYTHING, LOOP, of_operator
from undertow._src.compile.effects.state import ITEMS
from undertow._src.compile.effects.values import (
    EMPTY,
    GROUPS,
    MADE,
    MODULE,
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
    Bound,
    Closure,
    Fresh,
    Known,
    Method,
    Namespace,
    Value,
    is_plain,
    joined,
    shown,
)  # fmt: skip
from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.utils.data import DataLoader


def is_iterator(value: Any) -> bool:
    return in_class(type(value), "__next__") is not MISSING


class Elements(Attributes):
    """How values answer to loops, subscripts and operators."""

    def child(self, atom: Known, key: Any, value: Any) -> Known:
        def again() -> Any:
            return element(atom.get(), key)

        return Known(value, f"{atom.name}[{shown(key)}]", again)

    def children(self, atom: Known) -> Value:
        """Return the elements of a container from outside (of a dict, its values)."""
        value = atom.value
        pairs = entries_of(value).items() if isinstance(value, dict) else enumerate(held_by(value))
        found: set[Atom] = set()
        for key, each in pairs:
            if is_plain(each):
                found.add(NONE if each is None else PLAIN)
            else:
                found.add(self.child(atom, key, each))
        return joined(EMPTY, frozenset(found) | self.restored(value, ITEMS)) or ONE[PLAIN]

    def elements(self, value: Value, node: Any) -> Value:
        """Return what iterating over a value gives."""
        found = EMPTY
        for atom in value:
            found |= self._elements(atom, node)
        return found

    def _elements(self, atom: Atom, node: Any) -> Value:
        if isinstance(atom, Method):
            return self._elements(atom.owner, node)
        if isinstance(atom, Fresh):
            found = atom.elements() or ONE[PLAIN]
            if isinstance(atom.kind, type) and purity.origin_of(atom.kind) == "user":
                found |= self.protocols(frozenset([atom]), node, names=LOOP)
            return found
        if atom in (TENSOR, MADE):
            return ONE[MADE]
        if atom is TENSORS:
            return frozenset([TENSOR, NONE])
        if atom in (PLAIN, NONE):
            return ONE[PLAIN]
        if atom in (OWN, GROUPS, MODULE):
            return frozenset([atom])
        if isinstance(atom, Known):
            value = atom.value
            if is_plain(value):
                return ONE[PLAIN]
            if isinstance(value, Tensor):
                return ONE[MADE]
            if isinstance(value, Module):
                return self.module_parts(value) | self.protocols(frozenset([atom]), node, names=LOOP)
            if isinstance(value, np.ndarray):
                self.use(frozenset([atom]))
                return frozenset([atom, PLAIN])
            if is_namespace(value):
                return self.computed(f"goes through all of `{atom.name}`", node)
            if isinstance(value, (list, dict, set, frozenset, tuple, collections.deque)):
                self.use(frozenset([atom]))
                extra = self.protocols(frozenset([atom]), node, names=LOOP)
                if isinstance(value, dict):
                    plain = all(map(is_plain, value))
                    if self.decides and value and len(value) <= 16 and all(isinstance(key, str) for key in value):
                        return extra | frozenset(Known(key, repr(key)) for key in value)
                    return extra | (
                        ONE[PLAIN] if plain else frozenset(Known(key, f"key of {atom.name}") for key in value)
                    )
                return extra | self.children(atom)
            if isinstance(value, DataLoader):
                self.effect("call", f"goes through the DataLoader `{atom.name}`", node, value, field="iterator")
                return frozenset([TENSORS])
            if is_iterator(value):
                self.effect("call", f"takes from the iterator `{atom.name}`", node, value, field="iterator")
                return ONE[OPAQUE]
            if isinstance(value, type) and hasattr(value, "_member_map_"):
                return ONE[PLAIN]
            if purity.origin_of(type(value)) == "user":
                self.protocols(frozenset([atom]), node, names=LOOP)
                return self.unknown(f"goes through `{atom.name}`", node)
            if purity.origin_of(type(value)) == "own" and not purity.own_effect("", type(value).__module__):
                return ONE[OWN]
            return self.unknown(f"goes through `{atom.name}`", node)
        return self.unknown("goes through something unknown", node)

    def module_parts(self, module: Module) -> Value:
        parts: set[Atom] = set()
        for table in ("_modules", "_parameters"):
            for name, part in instance_dict(module).get(table, {}).items():
                if part is not None:
                    parts.add(Known(part, f"{type(module).__name__}[{name!r}]"))
        return frozenset(parts) or ONE[PLAIN]

    def dict_values(self, value: Value, node: Any) -> Value:
        found = EMPTY
        for atom in value:
            if isinstance(atom, Known) and isinstance(atom.value, dict):
                self.use(frozenset([atom]))
                found |= self.children(atom)
            else:
                found |= self._elements(atom, node)
        return found

    def inside(self, value: Value) -> Value:
        """Return the elements of containers that can be looked into at once."""
        found = EMPTY
        for atom in value:
            if isinstance(atom, Fresh):
                found |= atom.elements()
            elif isinstance(atom, Known) and type(atom.value) in (list, tuple, dict):
                found |= self.children(atom)
        return found

    def exact_items(self, value: Value) -> list[Value] | None:
        """Return the items of a tuple whose length is certain."""
        if len(value) == 1:
            (atom,) = value
            if isinstance(atom, Fresh) and atom.items is not None and not atom.contents:
                return atom.items
            if isinstance(atom, Known) and type(atom.value) is tuple:
                return [frozenset([self.child(atom, number, each)]) for number, each in enumerate(atom.value)]
        return None

    def item(self, atom: Atom, constant: Any, key: Value, node: Any) -> Value:
        """Return what subscripting gives; `constant` is ... where the key is not known."""
        if isinstance(atom, Method):
            return self.item(atom.owner, constant, key, node)
        if isinstance(atom, Fresh):
            items = atom.items
            if items and type(constant) is int and -len(items) <= constant < len(items) and not atom.contents:
                return items[constant]
            if isinstance(constant, str) and atom.named is not None:
                return atom.named.get(constant, EMPTY)
            return self._elements(atom, node)
        if atom is GROUPS:
            if constant == "params":
                return ONE[TENSORS]
            if isinstance(constant, str):
                return self.unknown(f"reads the setting {constant!r} of a parameter group", node)
            return ONE[GROUPS]
        if isinstance(atom, Known):
            return self._known_item(atom, constant, key, node)
        if isinstance(atom, Namespace) and isinstance(constant, str):
            return self.in_namespace(atom.owner, constant) or ONE[OPAQUE]
        return self._elements(atom, node)

    def _known_item(self, atom: Known, constant: Any, key: Value, node: Any) -> Value:
        value = atom.value
        if is_namespace(value):
            return self.namespace_item(atom, key, node)
        custom = in_class(type(value), "__getitem__")
        if isinstance(custom, FunctionType) and purity.origin_of(custom) == "user":
            return self.call_function(custom, Arguments([frozenset([atom]), ONE[PLAIN]]), node)
        if isinstance(value, type) or (is_plain(value) and constant is ...):
            return ONE[PLAIN]
        if isinstance(value, (dict, list, tuple, collections.deque)):
            if constant is not ...:
                each = element(value, constant)
                if each is not MISSING:
                    found = self.child(atom, constant, each)
                    self.found(found, value, None, constant)
                    return self.restored(value, ITEMS) | {found}
                if type(value) is dict and self.decides:  # it raises
                    return self.restored(value, ITEMS)
            if in_class(type(value), "__missing__") is not MISSING and not isinstance(value, collections.Counter):
                self.effect("update", f"may add a key to `{atom.name}`", node, value)
                self.use(frozenset([atom]))
                return (self.children(atom) if value else EMPTY) | self._missing(value, node)
            self.use(frozenset([atom]))
            return self.children(atom)
        return self._elements(atom, node)

    def _missing(self, value: Any, node: Any) -> Value:
        """Return what a mapping makes where it has nothing."""
        made = value.default_factory if type(value) is collections.defaultdict else None
        if made in (int, float, str, bool):
            return ONE[PLAIN]
        return self.fresh(node, made, EMPTY) if made in (list, dict, set, collections.deque) else ONE[OPAQUE]

    def sliced(self, atom: Atom, node: Any) -> Value:
        """Return a part of a list is a new list."""
        if isinstance(atom, Fresh) or (isinstance(atom, Known) and isinstance(atom.value, (list, tuple))):
            return self.fresh(node, list, self._elements(atom, node))
        return EMPTY

    def store_item(self, atom: Atom, key: Value, value: Value, node: Any, updating: bool = False) -> None:
        if isinstance(atom, Method):
            atom = atom.owner
        if isinstance(atom, Fresh):
            setter = in_class(atom.kind, "__setitem__") if isinstance(atom.kind, type) else None
            if isinstance(setter, FunctionType) and purity.origin_of(setter) == "user":
                self.call_function(setter, Arguments([frozenset([atom]), key, value]), node)
            names = self.strings(key) if atom.kind is dict else None
            for name in names or ():
                self.put_under(atom, name, value)
            if names is None:
                self.put_into(atom, key | value, key)
            self.change(atom)
        elif isinstance(atom, Known):
            if is_plain(atom.value):
                return  # it would raise
            if is_tensor(atom.value):
                self.here.writes = True
            elif is_namespace(atom.value):
                names = self.known_strings(key)
                for name in names or ():
                    self.looked_up(atom.value, name)
                    verb = "updates" if updating else "sets"
                    kind = "update" if updating else "store"
                    self.effect(kind, f"{verb} `{atom.name}[{name!r}]`", node, atom.value, name)
                if not names:
                    self.computed(f"stores into `{atom.name}[…]` by a name that is not known", node)
            else:
                verb = "updates" if updating else "stores into"
                self.store(atom.value, ITEMS, key | value)
                kind, entries = "update" if updating else "store", frozenset(self.strings(key) or ())
                self.effect(kind, f"{verb} `{atom.name}`", node, atom.value, entries=entries)
        elif isinstance(atom, Namespace):
            self._store_in_namespace(atom.owner, self.known_strings(key), value, node, updating)
        elif atom in (TENSOR, MADE, OWN):
            self.here.writes = True
        elif atom is TENSORS:  # a container that the function is given, which who calls it goes on with
            self.effect("call", "stores into what it is given", node, field="own")
        elif atom not in (PLAIN, NONE):
            self.effect("update" if updating else "store", "stores into something from outside", node)
            self.change(atom)

    def _store_in_namespace(
        self, owner: Known, names: list[str] | None, value: Value, node: Any, updating: bool
    ) -> None:
        """`vars(x)["name"] = value`: an attribute is set, past the code of its class."""
        kind, verb = ("update", "updates") if updating else ("store", "sets")
        for name in names or ():
            self.store(owner.value, name, value)
            self.effect(kind, f"{verb} `{owner.name}.{name}`", node, owner.value, name)
        if not names:
            self.store(owner.value, None, value)
            self.effect("update", f"reaches into `{owner.name}.__dict__`", node, owner.value)

    def write_into(self, atom: Atom, value: Value, node: Any, name: str) -> None:
        """`+=` and its like, which change some objects in place."""
        if isinstance(atom, Fresh):
            self.put_into(atom, value | self.elements(value, node))
            self.change(atom)
        elif isinstance(atom, Known):
            changes = isinstance(atom.value, (list, set, dict, collections.deque, np.ndarray, bytearray))
            if is_tensor(atom.value):
                self.here.writes = True
            if changes or (not is_plain(atom.value) and not is_tensor(atom.value)):
                self.store(atom.value, ITEMS, value | self.elements(value, node))
                self.effect("update", f"updates `{atom.name}`", node, atom.value)
        elif atom in TENSORISH:
            self.here.writes = True
        elif atom not in (PLAIN, NONE):
            self.effect("update", f"updates `{name}`", node)
            self.change(atom)

    # --- operators

    def protocols(self, value: Value, node: Any, others: Value = EMPTY, names: tuple[str, ...] = EVERYTHING) -> Value:
        """Call whatever Python might call by itself on objects of users' classes."""
        found = EMPTY
        for atom in value:
            kind: Any = type(atom.value) if isinstance(atom, Known) else getattr(atom, "kind", None)
            if not isinstance(kind, type) or purity.origin_of(kind) != "user":
                continue
            for name in names:
                method = in_class(kind, name)
                method = method.__func__ if isinstance(method, (classmethod, staticmethod)) else method
                if (
                    isinstance(method, FunctionType)
                    and purity.origin_of(method) == "user"
                    and not _is_generated(method, kind)
                ):
                    arguments = Arguments([frozenset([atom])], more=others | value)
                    found |= self.call_function(method, arguments, node)
        return found

    def arithmetic(self, values: list[Value], node: Any) -> Value:
        result = EMPTY
        together = EMPTY.union(*values)
        names = of_operator(node)
        self.use(together)
        for atom in together:
            if isinstance(atom, Method):
                atom = atom.owner
            if atom in TENSORISH:
                result |= ONE[MADE]
            elif atom in (PLAIN, NONE) or isinstance(atom, (Closure, Bound)):
                result |= ONE[PLAIN]
            elif isinstance(atom, Fresh):
                kind = atom.kind if atom.kind in (list, tuple, dict, set) else None
                result |= self.fresh(node, kind, atom.elements())
                result |= self.protocols(frozenset([atom]), node, together, names)
            elif isinstance(atom, Known):
                outside = atom.value
                if is_plain(outside) or isinstance(outside, (type, FunctionType, Module)):
                    result |= ONE[PLAIN]
                elif is_tensor(outside):
                    result |= ONE[MADE]
                elif isinstance(outside, np.ndarray):
                    result |= self.fresh(node, None, ONE[PLAIN])
                elif isinstance(outside, (list, dict, set, frozenset, tuple, collections.deque)):
                    inside = self.dict_values(frozenset([atom]), node)
                    result |= self.fresh(node, None, inside) | ONE[PLAIN]
                elif purity.origin_of(type(outside)) == "own":
                    result |= ONE[OWN]
                elif purity.origin_of(type(outside)) != "user":
                    result |= ONE[PLAIN]
                result |= self.protocols(frozenset([atom]), node, together, names)
            else:
                result |= self.unknown("computes with something unknown", node)
        return result


def _is_generated(method: FunctionType, kind: type) -> bool:
    """Whether `dataclass` or `namedtuple` wrote the method."""
    written = method.__code__.co_filename.startswith("<")
    return written and ("__dataclass_fields__" in dir(kind) or hasattr(kind, "_fields"))
