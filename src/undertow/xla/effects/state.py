"""What an analysis collects while it goes through the code."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from numbers import Number
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.optim import Optimizer
from undertow.xla.effects import trust
from undertow.xla.effects.findings import Effect, Effects, Place, Read, snapshot
from undertow.xla.effects.objects import MISSING, in_class, instance_dict
from undertow.xla.effects.values import (
    EMPTY,
    NONE,
    ONE,
    OPAQUE,
    OWN,
    PLAIN,
    Arguments,
    Atom,
    Fresh,
    Known,
    Method,
    Scope,
    Value,
    is_plain,
    shown,
)  # fmt: skip

MOST_STEPS = 200_000
MOST_ATOMS = 500
CONTAINERS = (list, dict, set, tuple, frozenset, np.ndarray)


class TooLarge(Exception):
    """There is more code than is worth going through."""


class Frame:
    """One function being gone through, as called from one place."""

    __slots__ = ("active", "function", "node", "owner", "path", "returns", "scope")

    def __init__(self, node: Any, function: FunctionType, scope: Scope, owner: Any) -> None:
        self.node = node
        self.function = function
        self.scope = scope
        self.owner = owner  # kept alive, because frames are found by its id
        self.returns: Value = EMPTY
        self.active = False
        self.path: list[Any] = []  # the statement that is being gone through, inside those around it


Chain = list[tuple[Frame, tuple[Any, ...]]]  # the functions under way, each with the statements under way in it


class State(ABC):
    """The findings so far, and the objects that stand for what the code makes."""

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self.stack: list[Frame] = []
        self.frames: dict[Any, Frame] = {}
        self.scopes: dict[Any, Scope] = {}
        self.atoms: dict[Any, Atom] = {}
        self.changed = False
        self.may_write = False  # what could not be followed may write into tensors
        self.written: set[int] = set()  # ids of statements that surely do, or call what does
        self.drawn: set[int] = set()  # ids of statements that draw from undertow's random streams
        self.changes: dict[int, set[Atom]] = {}  # by the id of a statement: objects of the code's own that it changes
        self._writes = self._draws = False
        self.skipped: frozenset[int] = frozenset()  # ids of statements that are left out
        self.origins: dict[Any, list[Chain]] = {}  # by which statements an effect comes about
        self.being_made: set[type] = set()  # classes whose metaclass is being gone through
        self.steps = 0
        self.node: Any = None
        self.unbound: dict[str, Any] = {}
        self._effects: dict[Any, Effect] = {}
        self._reads: dict[Any, Read] = {}
        self._holds: dict[Any, Read] = {}
        self._places: dict[Any, Place] = {}
        self._names: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
        self.parsed: dict[tuple[int, str], Any] = {}  # what `eval` is given, as syntax trees

    @property
    def function(self) -> Any:
        assert self.frame is not None
        return self.frame.function

    @property
    def writes(self) -> bool:
        return self._writes

    @writes.setter
    def writes(self, writes: bool) -> None:
        if writes:
            self._writes = True
            for frame in self.stack:
                self.written.update(map(id, frame.path))

    def spend(self, node: Any) -> None:
        self.node = node
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooLarge

    # --- what the layers above add, and all of them call

    def unknown(self, what: str, node: Any) -> Value:
        self.effect("call", what, node, field="unknown")
        return ONE[OPAQUE]

    @abstractmethod
    def call(self, called: Value, arguments: Arguments, node: Any, entering: bool = False) -> Value:
        """What comes back from a call of any of these."""

    @abstractmethod
    def call_atom(self, atom: Atom, arguments: Arguments, node: Any, entering: bool = False) -> Value: ...

    @abstractmethod
    def call_function(self, function: FunctionType, arguments: Arguments, node: Any) -> Value: ...

    @abstractmethod
    def enter(self, atom: Atom, node: Any) -> tuple[Value, bool]: ...

    @abstractmethod
    def protocols(self, value: Value, node: Any, others: Value = EMPTY) -> Value: ...

    @abstractmethod
    def is_callback(self, atom: Atom) -> bool: ...

    @abstractmethod
    def call_back(self, arguments: Arguments, node: Any, given: Value | None = None) -> None: ...

    @abstractmethod
    def body(self, node: Any, scope: Scope) -> None: ...

    @abstractmethod
    def evaluate(self, node: Any) -> Value: ...

    # --- findings

    def effect(
        self, kind: Any, what: str, node: Any, target: Any = None, attribute: str | None = None, field: str = ""
    ) -> None:
        file, line = "", 0
        if self.frame is not None:
            code = self.frame.function.__code__
            node = self.node if node is None else node
            file, line = code.co_filename, getattr(node, "lineno", code.co_firstlineno)
        key = what, file, line, id(target)
        self._effects.setdefault(key, Effect(kind, what, file, line, target, attribute, field))
        chain = [(frame, tuple(frame.path)) for frame in self.stack]
        chains = self.origins.setdefault(key, [])
        if chain not in chains:
            chains.append(chain)

    def found(self, known: Known, owner: Any, attribute: str | None, key: Any = MISSING) -> None:
        """Notes that a value was read from a place outside: an attribute, a cell, or what a container has under a key."""
        value = known.value
        if isinstance(value, ModuleType) or (isinstance(value, (FunctionType, type)) and trust.home(value) != "user"):
            return
        place = id(owner), attribute, known.name
        if is_plain(value) or isinstance(value, (FunctionType, type, MethodType, functools.partial, Number)):
            self._reads.setdefault(place, Read(known.name, known.get, value, owner, _kept_at(owner, attribute, key)))
        elif isinstance(value, (Tensor, Module, Optimizer)):
            self._holds.setdefault(place, Read(known.name, known.get, value, None, _kept_at(owner, attribute, key)))
        if not isinstance(value, (FunctionType, type)):
            self.place(owner, attribute)

    def called(self, known: Known) -> None:
        """Notes that an object is called: another one in its place counts if it is of another class."""
        key = id(known.value), None, "class"
        self._reads.setdefault(key, Read(f"the class of {known.name}", lambda: type(known.get()), type(known.value)))

    def depends_on(self, name: str, get: Any, value: Any, owner: Any) -> None:
        """Notes that what a function gives, which takes no argument, matters: it is asked again before each call."""
        self._reads.setdefault((name, id(value), id(owner)), Read(name, get, value))

    def identity(self, value: Value) -> None:
        """Notes that it matters which objects these are."""
        for atom in value:
            if isinstance(atom, Known) and not is_plain(atom.value):
                self.depends_on(f"which object {atom.name} is", partial(_identity, atom.get), id(atom.value), atom.value)

    def place(self, owner: Any, attribute: str | None) -> None:
        self._places.setdefault((id(owner), attribute), Place(owner, attribute))

    def looked_up(self, namespace: dict[str, Any], name: str) -> None:
        """Notes a name in a module that the code looks up, whether it is there or not."""
        self._names.setdefault((id(namespace), name), (namespace, name))

    def computed(self, what: str, node: Any) -> Value:
        """A read of something whose name is not known: nothing can tell whether it changes."""
        self.effect("call", what, node, field="reflection")
        return ONE[OPAQUE]

    def known_strings(self, value: Value) -> list[str] | None:
        """The strings that a value may be; None if it may be anything else."""
        texts = [atom.value for atom in value if isinstance(atom, Known) and isinstance(atom.value, str)]
        return texts if len(texts) == len(value) else None

    def namespace_item(self, atom: Known, key: Value, node: Any) -> Value:
        """What there is under a name in a module, or which module of a name is loaded."""
        names = self.known_strings(key)
        if not names:
            return self.computed(f"reads `{atom.name}[…]` by a name that is not known", node)
        found: set[Atom] = set()
        namespace = atom.value
        for name in names:
            self.looked_up(namespace, name)
            value = namespace.get(name, MISSING)
            if value is not MISSING:
                known = Known(value, f"{atom.name}[{name!r}]", functools.partial(namespace.get, name, MISSING))
                self.found(known, atom.value, name)
                found.add(known)
        return frozenset(found) or ONE[PLAIN]

    def hold(self, value: Value) -> None:
        """Notes modules, optimizers and tensors given to code that is not gone through: it may read all they hold."""
        for atom in value:
            if isinstance(atom, Known) and isinstance(atom.value, (Tensor, Module, Optimizer)):
                self._holds.setdefault((id(atom.value), None, atom.name), Read(atom.name, atom.get, atom.value))

    def draw(self) -> None:
        """Notes that random numbers of undertow's are drawn."""
        self._draws = True
        for frame in self.stack:
            self.drawn.update(map(id, frame.path))

    def change(self, atom: Atom) -> None:
        """Notes that an object which the code made is changed."""
        for frame in self.stack:
            for statement in frame.path:
                self.changes.setdefault(id(statement), set()).add(atom)

    def use(self, value: Value, deep: int = 0) -> None:
        """Notes that the contents of containers from outside matter: `deep` levels of what they hold as well."""
        for atom in value:
            if isinstance(atom, Known):
                self._use_contents(atom.value, atom.name, atom.get, deep)
            elif isinstance(atom, Fresh) and deep:
                self.use(atom.elements() - {atom}, deep - 1)
            elif isinstance(atom, Method):
                self.use(frozenset([atom.owner]), deep)

    def _use_contents(self, value: Any, name: str, get: Any, deep: int) -> None:
        if in_class(type(value), "__next__") is not MISSING:
            self.effect("call", f"takes from the iterator `{name}`", None, value, field="iterator")
        if is_plain(value) or (not isinstance(value, CONTAINERS) and type(value).__name__ != "deque"):
            if trust.home(type(value)) == "standard":  # a UserList, say
                self.place(value, None)
            return
        self.place(value, None)
        self._reads.setdefault(id(value), Read(name, get, snapshot(value)))
        if deep and not isinstance(value, np.ndarray):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                self._use_contents(each, f"{name}[{shown(key)}]", lambda each=each: each, deep - 1)

    # --- objects that the code makes

    def fresh(self, node: Any, kind: Any, contents: Value, keys: Value | None = None) -> Value:
        """The object made at a place in the code, holding (at least) these contents."""
        key = id(self.frame), id(node), kind
        atom = self.atoms.get(key)
        if atom is None:
            atom = self.atoms[key] = Fresh(kind)
        assert isinstance(atom, Fresh)
        self.put_into(atom, contents, keys)
        return frozenset([atom])

    def fresh_tuple(self, node: Any, items: list[Value], part: str = "") -> Value:
        key = id(self.frame), id(node), "tuple", part, len(items)
        atom = self.atoms.get(key)
        if atom is None:
            atom = self.atoms[key] = Fresh(tuple, [EMPTY] * len(items))
        assert isinstance(atom, Fresh) and atom.items is not None
        for number, item in enumerate(items):
            if not item <= atom.items[number]:
                atom.items[number] = self.limited(atom.items[number] | item)
                self.changed = True
        return frozenset([atom])

    def put_into(self, atom: Fresh, contents: Value, keys: Value | None = None) -> None:
        """Adds contents to an object; all of them may be keys, unless it is known which."""
        keys = contents if keys is None else keys
        if not contents <= atom.contents or not keys <= atom.keys:
            atom.contents, atom.keys = self.limited(atom.contents | contents), self.limited(atom.keys | keys)
            self.changed = True

    def set_field(self, atom: Fresh, name: str, value: Value) -> None:
        before = atom.fields.get(name, EMPTY)
        if not value <= before:
            atom.fields[name] = self.limited(before | value)
            self.changed = True

    def limited(self, value: Value) -> Value:
        return value if len(value) < MOST_ATOMS else ONE[OPAQUE]

    def give_back(self, value: Value) -> None:
        assert self.frame is not None
        if not value <= self.frame.returns:
            self.frame.returns = self.limited(self.frame.returns | value)
            self.changed = True

    # --- the end

    def effect_keys(self) -> list[Any]:
        """What effects are kept under, in order."""
        return list(self._effects)

    def findings(self, result: Value) -> Effects:
        for name, node in self.unbound.items():
            self.effect("call", f"uses `{name}`, of which nothing is known", node, field="unknown")
        places = tuple(self._places.values())
        return Effects(
            tuple(self._finished(effect, places) for effect in self._effects.values()),
            _returns(result),
            tuple(self._reads.values()),
            tuple(self._holds.values()),
            places,
            self.writes or self.may_write,
            tuple(self._names.values()),
            tuple({id(each.function): each.function for each in self.frames.values()}.values()),
            self._draws,
        )

    def _finished(self, effect: Effect, places: tuple[Place, ...]) -> Effect:
        """A store into something that the function also reads may depend on what was there before."""
        if effect.kind == "store" and effect.target is not None:
            changed = Place(effect.target, effect.attribute)
            if any(changed.overlaps(place) for place in places):
                what = effect.what
                return Effect("update", what, effect.file, effect.line, effect.target, effect.attribute, effect.field)
        return effect


def _identity(get: Callable[[], Any]) -> int:
    return id(get())


def _kept_at(owner: Any, attribute: str | None, key: Any) -> tuple[Any, Any] | None:
    """What holds a value that was read, and its key there."""
    if key is not MISSING:
        return owner, key
    if isinstance(owner, (dict, CellType)):
        return owner, attribute
    own = instance_dict(owner)
    return (own, attribute) if attribute in own else None


def _returns(result: Value) -> bool | None:
    nothing = {atom for atom in result if atom is NONE or (isinstance(atom, Known) and atom.value is None)}
    if not result:
        return None
    if len(nothing) == len(result):
        return False
    return None if nothing or result & {OPAQUE, OWN} else True


