"""A log of the effects and dependencies of the analyzed code, by statement."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from numbers import Number
from types import BuiltinFunctionType, CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Literal

import numpy as np

from undertow._src.compile.effects.call_graph import Position
from undertow._src.compile.effects.findings import Effect, Place, Read, snapshot
from undertow._src.compile.effects.objects import MISSING, in_class, instance_dict
from undertow._src.compile.effects.purity import origin_of
from undertow._src.compile.effects.values import ONE, OPAQUE, Atom, Concrete, Fresh, Method, Value, is_plain, shown
from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.optim import Optimizer

MAY_ADD = "may add a key"  # what looking into a `defaultdict` does
CACHED = type(lru_cache(len))
_CONTAINERS = (list, dict, set, tuple, frozenset, np.ndarray)
# Values that a program has as constants, besides plain values.
_COMPARED = (FunctionType, BuiltinFunctionType, np.ufunc, type, MethodType, partial, Number, ModuleType)


class EffectLog:
    """The effects and dependencies that were found so far.

    Each method records one thing at the current position: an effect, a read, a place, a name that is looked up.
    """

    def __init__(self, at: Position) -> None:
        self.at = at
        self.order: dict[Any, int] = {}  # in which effects were found
        self._effects: dict[Any, Effect] = {}

    # --- effects

    def effect(
        self, kind: Literal["call", "store", "update"], what: str, node: Any, target: Any = None,
        attribute: str | None = None, field: str = "", entries: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """Record an effect; see `Effect` for the arguments."""
        key, effect = self.effect_here(kind, what, node, target, attribute, field, entries)
        self.at.notes.effects[key] = effect

    def effect_here(
        self, kind: Literal["call", "store", "update"], what: str, node: Any, target: Any = None,
        attribute: str | None = None, field: str = "", entries: frozenset[str] = frozenset(),
    ) -> tuple[Any, Effect]:  # fmt: skip
        """Return an effect at this position, with its key, without recording it."""
        file, line = "", 0
        if self.at.frame is not None:
            code = self.at.frame.function.__code__
            node = self.at.node if node is None else node
            file, line = code.co_filename, getattr(node, "lineno", code.co_firstlineno)
        key = what, file, line, id(target), entries
        effect = self._effects.get(key)
        if effect is None:
            effect = self._effects[key] = Effect(kind, what, file, line, target, attribute, field, entries)
            self.order[key] = len(self.order)
        return key, effect

    def store(
        self, updating: bool, place: str, node: Any, target: Any = None, attribute: str | None = None,
        verb: str = "sets", entries: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """Record that a place gets a new value, which may depend on the old one."""
        kind, verb = ("update", "updates") if updating else ("store", verb)
        self.effect(kind, f"{verb} {place}", node, target, attribute, entries=entries)  # type: ignore[arg-type]

    def unknown(self, what: str, node: Any) -> Value:
        """Record something that cannot be followed; its result may be anything."""
        self.effect("call", what, node, field="unknown")
        return ONE[OPAQUE]

    def unguardable(self, what: str, node: Any) -> Value:
        """Record a read of something whose name is not known: no guard can tell whether it changes."""
        self.effect("call", what, node, field="reflection")
        return ONE[OPAQUE]

    def tensor_write(self) -> None:
        """Record that tensors may be written that the code did not make."""
        self.at.notes.writes = True

    def unfollowed_call(self) -> None:
        """Record that unanalyzed code runs, which may write to tensors."""
        self.at.notes.may_write = True

    def random_draw(self) -> None:
        """Record that random numbers are drawn from undertow's streams."""
        self.at.notes.draws = True

    def change(self, atom: Atom) -> None:
        """Record that an object that the code made is changed."""
        self.at.notes.changes.add(atom)

    def rebind(self, name: str) -> None:
        """Record that a function sets a variable of an enclosing function that the code itself has called."""
        self.at.notes.rebinds.add(name)

    # --- dependencies

    def read(self, known: Concrete, owner: Any, attribute: str | None, key: Any = MISSING) -> None:
        """Record that a value was read from a place outside: an attribute, a cell, or an entry of a container."""
        value = known.value
        is_outside_code = isinstance(value, (FunctionType, type)) and origin_of(value) != "user"
        if (is_outside_code or isinstance(value, ModuleType)) and not _is_variable(owner, attribute, key):
            return
        notes = self.at.notes
        self.found(value)
        place = id(owner), attribute, known.name
        if is_plain(value) or isinstance(value, _COMPARED):
            if place not in notes.reads:
                notes.reads[place] = Read(known.name, known.get, value, owner, _kept_at(owner, attribute, key))
        elif isinstance(value, (Tensor, Module, Optimizer)) and place not in notes.holds:
            notes.holds[place] = Read(known.name, known.get, value, None, _kept_at(owner, attribute, key))
        if not isinstance(value, (FunctionType, type)):
            self.place(owner, attribute)

    def found(self, value: Any) -> None:
        """Record that an object from outside was found, if its class may be changed, or it is a class or has a cache."""
        kind = value if isinstance(value, type) else type(value)
        if origin_of(kind) == "user" or kind is CACHED:
            self.at.notes.objects.setdefault(id(value), value)

    def class_called(self, known: Concrete) -> None:
        """Record that an object is called: a replacement matters if its class differs."""
        key = id(known.value), None, "class"
        name = f"the class of {known.name}"
        self.at.notes.reads.setdefault(key, Read(name, lambda: type(known.get()), type(known.value)))

    def depends_on(self, name: str, get: Callable[[], Any], value: Any, owner: Any) -> None:
        """Record that the result of `get` matters: a guard calls it again before each call of the program."""
        self.at.notes.reads.setdefault((name, id(value), id(owner)), Read(name, get, value))

    def kept_in_c(self, known: Concrete, owner: Any) -> None:
        """Record that an attribute was read that an object written in C keeps where no walk finds it."""
        key = known.name, id(owner), "C"
        self.at.notes.reads.setdefault(key, Read(known.name, known.get, known.value, owner, in_c=True))

    def identity(self, value: Value) -> None:
        """Record that the identities of these objects matter."""
        for atom in value:
            if isinstance(atom, Concrete) and not is_plain(atom.value):
                name = f"which object {atom.name} is"
                self.depends_on(name, partial(_identity, atom.get), id(atom.value), atom.value)

    def place(self, owner: Any, attribute: str | None) -> None:
        """Record that the code reads a place, whatever its value is."""
        self.at.notes.places.setdefault((id(owner), attribute), Place(owner, attribute))

    def lookup(self, namespace: dict[str, Any], name: str) -> None:
        """Record that the code looks up a name in a module, whether the module has it or not."""
        self.at.notes.names.setdefault((id(namespace), name), (namespace, name))

    def held(self, value: Value) -> None:
        """Record modules, optimizers and tensors passed to unanalyzed code: it may read all of their contents."""
        for atom in value:
            if isinstance(atom, Concrete) and isinstance(atom.value, (Tensor, Module, Optimizer)):
                key = id(atom.value), None, atom.name
                self.at.notes.holds.setdefault(key, Read(atom.name, atom.get, atom.value))

    def contents(self, value: Value, deep: int = 0) -> None:
        """Record that the contents of containers from outside matter, and those of `deep` levels of inner containers."""
        self.at.steps += len(value)
        for atom in value:
            if isinstance(atom, Concrete):
                self._contents(atom.value, atom.name, atom.get, deep)
            elif isinstance(atom, Fresh) and deep:
                self.contents(atom.elements() - {atom}, deep - 1)
            elif isinstance(atom, Method):
                self.contents(frozenset([atom.owner]), deep)

    def _contents(self, value: Any, name: str, get: Callable[[], Any], deep: int) -> None:
        if is_plain(value):
            return
        if in_class(type(value), "__next__") is not MISSING:
            self.effect("call", f"takes from the iterator `{name}`", None, value, field="iterator")
        if not isinstance(value, _CONTAINERS) and type(value).__name__ != "deque":
            if origin_of(type(value)) == "standard":  # a UserList, say
                self.place(value, None)
            return
        self.place(value, None)
        if id(value) not in self.at.notes.reads:
            self.at.notes.reads[id(value)] = Read(name, get, snapshot(value))
        if deep and not isinstance(value, np.ndarray):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                self._contents(each, f"{name}[{shown(key)}]", partial(_itself, each), deep - 1)


def _itself(value: Any) -> Any:
    return value


def _identity(get: Callable[[], Any]) -> int:
    return id(get())


def _is_variable(owner: Any, attribute: str | None, key: Any) -> bool:
    """Return whether a value is held by a cell, a container or an object, and not by a class or a module."""
    if key is not MISSING or isinstance(owner, CellType):
        return True
    if isinstance(owner, (ModuleType, type, FunctionType, dict)):
        return False
    in_slot = attribute is not None and isinstance(in_class(type(owner), attribute), MemberDescriptorType)
    return in_slot or attribute in instance_dict(owner)


def _kept_at(owner: Any, attribute: str | None, key: Any) -> tuple[Any, Any] | None:
    """Return the container that holds a value which was read, and its key there."""
    if key is not MISSING:
        return owner, key
    if isinstance(owner, (dict, CellType)):
        return owner, attribute
    own = instance_dict(owner)
    return (own, attribute) if attribute in own else None
