"""Items: what iterating and subscripting give, and what setting an item does."""

from __future__ import annotations

import collections
from array import array
from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.effect_log import MAY_ADD
from undertow._src.compile.effects.heap import ITEMS
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.attributes import in_instance_dict
from undertow._src.compile.effects.models.namespaces import namespace_item
from undertow._src.compile.effects.objects import (
    MISSING,
    element,
    entries_of,
    held_by,
    in_class,
    instance_dict,
    is_namespace,
    wrapped_by,
)
from undertow._src.compile.effects.purity import is_tensor, is_users_function
from undertow._src.compile.effects.special_methods import AS_NUMBER, LOOP
from undertow._src.compile.effects.values import (
    EMPTY,
    GROUPS,
    MADE,
    MODULE,
    MOST_STRINGS,
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
    joined,
    shown,
    strings_in,
)
from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.utils.data import DataLoader


def is_iterator(value: Any) -> bool:
    """Return whether taking from a value changes it."""
    return in_class(type(value), "__next__") is not MISSING


def child(atom: Concrete, key: Any, value: Any) -> Concrete:
    """Return an element of a container from outside."""

    def again() -> Any:
        return element(atom.get(), key)

    return Concrete(value, f"{atom.name}[{shown(key)}]", again)


def children(analysis: Analysis, atom: Concrete) -> Value:
    """Return the elements of a container from outside (of a dict, its values)."""
    value = atom.value
    pairs = entries_of(value).items() if isinstance(value, dict) else enumerate(held_by(value))
    found: set[Atom] = set()
    for key, each in pairs:
        if is_plain(each):
            found.add(NONE if each is None else PLAIN)
        else:
            analysis.log.found(each)
            found.add(child(atom, key, each))
    return joined(EMPTY, frozenset(found) | analysis.heap.written(value, ITEMS)) or ONE[PLAIN]


def iterate(analysis: Analysis, atom: Atom, node: Any) -> Value:
    """Return the result of iterating over a value."""
    if isinstance(atom, Concrete):
        return _iterate_known(analysis, atom, node)
    if isinstance(atom, Method):
        return iterate(analysis, atom.owner, node)
    if isinstance(atom, Fresh):
        found = atom.elements() or ONE[PLAIN]
        return found | analysis.protocols(frozenset([atom]), node, names=LOOP)
    found = _ELEMENTS_OF.get(atom, EMPTY)
    return found or analysis.log.unknown("goes through something unknown", node)


def _iterate_known(analysis: Analysis, atom: Concrete, node: Any) -> Value:
    value, itself = atom.value, frozenset([atom])
    if is_plain(value):
        return ONE[PLAIN]
    if isinstance(value, Tensor):
        return ONE[MADE]
    if isinstance(value, Module):
        return _module_parts(value) | analysis.protocols(itself, node, names=LOOP)
    if isinstance(value, np.ndarray):
        analysis.log.contents(itself)
        return frozenset([atom, PLAIN])
    if isinstance(value, (bytearray, memoryview, array)):
        analysis.log.place(value, None)
        return ONE[PLAIN]
    if is_namespace(value):
        return analysis.log.unguardable(f"goes through all of `{atom.name}`", node)
    if isinstance(value, (list, dict, set, frozenset, tuple, collections.deque)):
        analysis.log.contents(itself)
        extra = analysis.protocols(itself, node, names=LOOP)
        return extra | (_keys_of(analysis, atom) if isinstance(value, dict) else children(analysis, atom))
    if isinstance(value, DataLoader):
        analysis.log.effect("call", f"goes through the DataLoader `{atom.name}`", node, value, field="iterator")
        return ONE[TENSORS]
    if is_iterator(value):
        return take_from(analysis, atom, node)
    if isinstance(value, type) and hasattr(value, "_member_map_"):
        return ONE[PLAIN]
    if purity.origin_of(type(value)) == "own" and not purity.own_effect("", type(value).__module__):
        return ONE[OWN]
    analysis.protocols(itself, node, names=LOOP)
    inside(analysis, atom)
    return analysis.log.unknown(f"goes through `{atom.name}`", node)


def inside(analysis: Analysis, atom: Concrete) -> list[Concrete]:
    """Return the containers inside a wrapper of the standard library, whose contents matter."""
    found = [Concrete(each, atom.name) for each in wrapped_by(atom.value)]
    found += [inner for each in found for inner in inside(analysis, each)]
    analysis.log.contents(frozenset(found))
    return found


def take_from(analysis: Analysis, iterator: Concrete, node: Any) -> Value:
    """Return the next element of an iterator from outside, which is changed by that."""
    what = f"takes from the iterator `{iterator.name}`"
    analysis.log.effect("call", what, node, iterator.value, field="iterator")
    return ONE[OPAQUE]


def _keys_of(analysis: Analysis, atom: Concrete) -> Value:
    keys = atom.value
    if analysis.decides and keys and len(keys) <= MOST_STRINGS and all(isinstance(key, str) for key in keys):
        return frozenset(Concrete(key, repr(key)) for key in keys)
    return ONE[PLAIN] if all(map(is_plain, keys)) else frozenset(Concrete(key, f"key of {atom.name}") for key in keys)


def _module_parts(module: Module) -> Value:
    """Return the modules and parameters in a container of modules."""
    parts: set[Atom] = set()
    for table in ("_modules", "_parameters"):
        for name, part in instance_dict(module).get(table, {}).items():
            if part is not None:
                parts.add(Concrete(part, f"{type(module).__name__}[{name!r}]"))
    return frozenset(parts) or ONE[PLAIN]


def dict_values(analysis: Analysis, value: Value, node: Any) -> Value:
    """Return the values of mappings, and the elements of anything else."""
    found = EMPTY
    for atom in value:
        if isinstance(atom, Concrete) and isinstance(atom.value, dict):
            analysis.log.contents(frozenset([atom]))
            found |= children(analysis, atom)
        else:
            found |= iterate(analysis, atom, node)
    return found


def with_contents(analysis: Analysis, value: Value) -> Value:
    """Return a value together with the elements of containers that can be read at once."""
    found = value
    for atom in value:
        if isinstance(atom, Fresh):
            found |= atom.elements()
        elif isinstance(atom, Concrete) and type(atom.value) in (list, tuple, dict):
            found |= children(analysis, atom)
    return found


def add_all(analysis: Analysis, atom: Fresh, value: Value, node: Any) -> None:
    """Add the entries of other mappings to a dict, as by `**`."""
    for other in value:
        named = other.named if isinstance(other, Fresh) else None
        if named is None:
            keys = analysis.elements(frozenset([other]), node)
            analysis.heap.add(atom, keys | dict_values(analysis, frozenset([other]), node), keys)
        else:
            for name, each in named.items():
                analysis.heap.add_entry(atom, name, each)


def exact_items(analysis: Analysis, value: Value) -> list[Value] | None:
    """Return the items of a tuple whose length is certain."""
    if len(value) == 1:
        (atom,) = value
        if isinstance(atom, Fresh) and atom.items is not None and not atom.contents:
            return atom.items
        if isinstance(atom, Concrete) and type(atom.value) is tuple:
            return [frozenset([child(atom, number, each)]) for number, each in enumerate(atom.value)]
    return None


def read(analysis: Analysis, atom: Atom, constant: Any, key: Value, node: Any) -> Value:
    """Return the result of subscripting; `constant` is ... where the key is not known."""
    if isinstance(atom, Concrete):
        return _item_of_known(analysis, atom, constant, key, node)
    if isinstance(atom, Method):
        return read(analysis, atom.owner, constant, key, node)
    if isinstance(atom, Fresh):
        items = atom.items
        if items and type(constant) is int and -len(items) <= constant < len(items) and not atom.contents:
            return items[constant]
        if isinstance(constant, str) and atom.named is not None:
            return atom.named.get(constant, EMPTY)
    elif isinstance(atom, InstanceDict) and isinstance(constant, str):
        return in_instance_dict(analysis, atom.owner, constant) or ONE[OPAQUE]
    elif atom is GROUPS and constant == "params":
        return ONE[TENSORS]
    elif atom is GROUPS and isinstance(constant, str):
        return analysis.log.unknown(f"reads the setting {constant!r} of a parameter group", node)
    return iterate(analysis, atom, node)


def _item_of_known(analysis: Analysis, atom: Concrete, constant: Any, key: Value, node: Any) -> Value:
    value = atom.value
    if is_namespace(value):
        return namespace_item(analysis, atom, key, node)
    custom = in_class(type(value), "__getitem__")
    if is_users_function(custom):
        return analysis.call_function(custom, CallArguments([frozenset([atom]), ONE[PLAIN]]), node)
    of_class = in_class(value, "__class_getitem__") if isinstance(value, type) else MISSING
    if isinstance(of_class, classmethod) and is_users_function(of_class.__func__):
        return analysis.call_function(of_class.__func__, CallArguments([frozenset([atom]), key]), node)
    if isinstance(value, (type, *purity.ALIASES)) and custom is MISSING:
        return frozenset([atom])  # `list[int]()` makes what `list()` makes
    if isinstance(value, type) or (is_plain(value) and constant is ...):
        return ONE[PLAIN]
    if not isinstance(value, (dict, list, tuple, collections.deque)):
        return iterate(analysis, atom, node)
    if constant is not ...:
        each = element(value, constant)
        if each is not MISSING:
            found = child(atom, constant, each)
            analysis.log.read(found, value, None, constant)
            return analysis.heap.written(value, ITEMS) | {found}
        if type(value) is dict and analysis.decides:  # it raises
            return analysis.heap.written(value, ITEMS)
    analysis.log.contents(frozenset([atom]))
    if in_class(type(value), "__missing__") is not MISSING and not isinstance(value, collections.Counter):
        analysis.log.effect("update", f"{MAY_ADD} to `{atom.name}`", node, value)
        return (children(analysis, atom) if value else EMPTY) | _missing(analysis, value, node)
    return children(analysis, atom)


def _missing(analysis: Analysis, value: Any, node: Any) -> Value:
    """Return the value that a mapping makes for a missing key."""
    made = value.default_factory if type(value) is collections.defaultdict else None
    if made in (int, float, str, bool):
        return ONE[PLAIN]
    if made in (list, dict, set, collections.deque):
        return analysis.heap.fresh(node, made, EMPTY)
    if isinstance(made, type) or purity.origin_of(made) != "user":
        return ONE[OPAQUE]  # an object whose methods change it: all that calls them would have to move at once
    return analysis.call(frozenset([Concrete(made, "default_factory")]), CallArguments([]), node)


def sliced(analysis: Analysis, atom: Atom, node: Any) -> Value:
    """Return the new list for a slice of a list or tuple."""
    if isinstance(atom, Fresh) or (isinstance(atom, Concrete) and isinstance(atom.value, (list, tuple))):
        return analysis.heap.fresh(node, list, iterate(analysis, atom, node))
    return EMPTY


def store(analysis: Analysis, atom: Atom, key: Value, value: Value, node: Any, updating: bool = False) -> None:
    """Set an item."""
    if isinstance(atom, Method):
        atom = atom.owner
    if isinstance(atom, Concrete):
        _store_in_known(analysis, atom, key, value, node, updating)
    elif isinstance(atom, Fresh):
        setter = in_class(atom.kind, "__setitem__") if isinstance(atom.kind, type) else None
        if is_users_function(setter):
            analysis.call_function(setter, CallArguments([frozenset([atom]), key, value]), node)
        names = few_strings(key) if atom.kind is dict else None
        for name in names or ():
            analysis.heap.add_entry(atom, name, value)
        if names is None:
            analysis.heap.add(atom, key | value, key)
        analysis.log.change(atom)
    elif isinstance(atom, InstanceDict):  # `vars(x)["name"] = value` sets an attribute, past the code of its class
        owner, names = atom.owner, strings_in(key)
        for name in names or ():
            analysis.heap.write(owner.value, name, value)
            analysis.log.store(updating, f"`{owner.name}.{name}`", node, owner.value, name)
        if not names:
            analysis.heap.write(owner.value, None, value)
            analysis.log.effect("update", f"reaches into `{owner.name}.__dict__`", node, owner.value)
    elif atom in (TENSOR, MADE, OWN):
        analysis.log.tensor_write()
    elif atom is TENSORS:  # a container that is an argument, which the caller continues to use
        analysis.log.effect("call", "stores into what it is given", node, field="own")
    elif atom not in (PLAIN, NONE):
        analysis.log.effect("update" if updating else "store", "stores into something from outside", node)
        analysis.log.change(atom)


def _store_in_known(analysis: Analysis, atom: Concrete, key: Value, value: Value, node: Any, updating: bool) -> None:
    target = atom.value
    if is_plain(target):
        return  # it would raise
    if is_tensor(target):
        analysis.log.tensor_write()
    elif is_namespace(target):
        names = strings_in(key)
        for name in names or ():
            analysis.log.lookup(target, name)
            analysis.log.store(updating, f"`{atom.name}[{name!r}]`", node, target, name)
        if not names:
            analysis.log.unguardable(f"stores into `{atom.name}[…]` by a name that is not known", node)
    else:
        for each in inside(analysis, atom):
            analysis.heap.write(each.value, ITEMS, key | value)
            analysis.log.store(updating, f"`{atom.name}`", node, each.value, verb="stores into")
        analysis.heap.write(target, ITEMS, key | value)
        if isinstance(target, (np.ndarray, array)):
            analysis.protocols(value, node, names=(*AS_NUMBER, *LOOP))
        entries = frozenset(few_strings(key) or ())
        analysis.log.store(updating, f"`{atom.name}`", node, target, verb="stores into", entries=entries)


def write_into(analysis: Analysis, atom: Atom, value: Value, node: Any, name: str) -> None:
    """Apply `+=` and the like, which change some objects in place."""
    if isinstance(atom, Fresh):
        analysis.heap.add(atom, value | analysis.elements(value, node))
        analysis.log.change(atom)
    elif isinstance(atom, Concrete):
        changes = isinstance(atom.value, (list, set, dict, collections.deque, np.ndarray, bytearray))
        if is_tensor(atom.value):
            analysis.log.tensor_write()
        if changes or (not is_plain(atom.value) and not is_tensor(atom.value)):
            analysis.heap.write(atom.value, ITEMS, value | analysis.elements(value, node))
            analysis.log.effect("update", f"updates `{atom.name}`", node, atom.value)
    elif atom in TENSORISH:
        analysis.log.tensor_write()
    elif atom not in (PLAIN, NONE):
        analysis.log.effect("update", f"updates `{name}`", node)
        analysis.log.change(atom)


_ELEMENTS_OF: dict[Atom, Value] = {
    TENSOR: ONE[MADE],
    MADE: ONE[MADE],
    TENSORS: frozenset([TENSOR, NONE]),
    PLAIN: ONE[PLAIN],
    NONE: ONE[PLAIN],
    OWN: ONE[OWN],
    GROUPS: ONE[GROUPS],
    MODULE: ONE[MODULE],
}
