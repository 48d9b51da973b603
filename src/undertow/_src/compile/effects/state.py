"""What an analysis collects while it goes through the code."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from numbers import Number
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.coverage import Coverage
from undertow._src.compile.effects.findings import Effect, Place, Read, snapshot
from undertow._src.compile.effects.graph import Frame, Notes
from undertow._src.compile.effects.objects import MISSING, in_class, instance_dict
from undertow._src.compile.effects.values import (
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
    joined,
    shown,
)  # fmt: skip
from undertow._tensor import Tensor
from undertow.nn import Module
from undertow.optim import Optimizer

MOST_STEPS = 300_000
ITEMS = "[]"  # the name of a place that any element of a container may be at
CONTAINERS = (list, dict, set, tuple, frozenset, np.ndarray)


class Unbound(NamedTuple):
    """A name that was read before it had a value: its scope, if the code binds it, and which statement read it."""

    name: str
    scope: Scope | None
    frame: Frame | None
    notes: Notes


class TooLarge(Exception):
    """There is more code than is worth going through."""


class State(ABC):
    """The findings so far, and the objects that stand for what the code makes."""

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self._methods: dict[type, Any] = {}  # by which kinds of expressions are gone through
        self.top = Notes()  # what calling the function itself does
        self.here = self.top  # the notes of the statement that is being gone through
        self.frames: dict[Any, Frame] = {}
        self.waiting: list[Frame] = []  # those that are to be gone through again
        self.nested = 0  # how many are being gone through
        self.scopes: dict[Any, Scope] = {}
        self.atoms: dict[Any, Atom] = {}
        self.may_decide = False  # whether code in packages behind tests that fail is left out; see `decisions`
        self.coverage: Coverage | None = None  # what ran in traces, if the rest of packages is left out
        self.kept: list[Any] = []  # objects that are known by their ids
        self.evaluated: dict[Any, tuple[Value, list[Any]]] = {}  # what functions gave that only look, and of what
        self.outside: dict[Any, Fresh] = {}  # what the code puts into objects from outside, by place
        self.steps, self.most_steps = 0, MOST_STEPS
        self.node: Any = None
        self.unbound: dict[Any, Unbound] = {}  # names that were read before they had a value
        self.order: dict[Any, int] = {}  # in which effects were found
        self._effects: dict[Any, Effect] = {}
        self.parsed: dict[tuple[int, str], Any] = {}  # what `eval` is given, as syntax trees

    @property
    def function(self) -> Any:
        assert self.frame is not None
        return self.frame.function

    @property
    def decides(self) -> bool:
        return self.frame is not None and self.frame.decides

    def is_dead(self, node: Any) -> bool:
        """Whether a part of a package's code did not run in any trace."""
        frame = self.frame
        if frame is None or not frame.is_cut or self.coverage is None:
            return False
        return self.coverage.is_dead(frame.function.__code__, node)

    def _ran_not(self, frame: Frame, node: Any) -> bool:
        return self.coverage is not None and self.coverage.is_dead(frame.function.__code__, node)

    def present(self) -> Frame | None:
        return self.frame

    def grown(self, readers: Iterable[Frame | None]) -> None:
        """Note that something holds more than what these have seen."""
        for frame in readers:
            if frame is not None and not frame.dirty:
                frame.dirty = True
                self.waiting.append(frame)

    def spend(self, node: Any) -> None:
        self.node = node
        self.steps += 1
        if self.steps > self.most_steps:
            raise TooLarge

    # --- what the layers above add, and all of them call

    def unknown(self, what: str, node: Any) -> Value:
        self.effect("call", what, node, field="unknown")
        return ONE[OPAQUE]

    @abstractmethod
    def call(self, called: Value, arguments: Arguments, node: Any, entering: bool = False) -> Value:
        """Return what comes back from a call of any of these."""

    @abstractmethod
    def call_atom(self, atom: Atom, arguments: Arguments, node: Any, entering: bool = False) -> Value: ...

    @abstractmethod
    def call_function(self, function: FunctionType, arguments: Arguments, node: Any) -> Value: ...

    @abstractmethod
    def enter(self, atom: Atom, node: Any) -> tuple[Value, bool]: ...

    @abstractmethod
    def protocols(self, value: Value, node: Any, others: Value = EMPTY, names: tuple[str, ...] = ...) -> Value: ...

    @abstractmethod
    def is_callback(self, atom: Atom) -> bool: ...

    @abstractmethod
    def call_back(self, arguments: Arguments, node: Any, given: Value | None = None) -> None: ...

    @abstractmethod
    def strings(self, value: Value) -> list[str] | None: ...

    @abstractmethod
    def _put_all(self, atom: Fresh, value: Value, node: Any) -> None: ...

    @abstractmethod
    def body(self, node: Any, scope: Scope) -> None: ...

    @abstractmethod
    def evaluate(self, node: Any) -> Value: ...

    # --- findings

    def effect(
        self, kind: Any, what: str, node: Any, target: Any = None, attribute: str | None = None, field: str = "",
        entries: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        key, effect = self.effect_here(kind, what, node, target, attribute, field, entries)
        self.here.effects[key] = effect

    def effect_here(
        self, kind: Any, what: str, node: Any, target: Any = None, attribute: str | None = None, field: str = "",
        entries: frozenset[str] = frozenset(),
    ) -> tuple[Any, Effect]:  # fmt: skip
        """Return an effect that would come about here, and what it goes by."""
        file, line = "", 0
        if self.frame is not None:
            code = self.frame.function.__code__
            node = self.node if node is None else node
            file, line = code.co_filename, getattr(node, "lineno", code.co_firstlineno)
        key = what, file, line, id(target), entries
        effect = self._effects.get(key)
        if effect is None:
            effect = self._effects[key] = Effect(kind, what, file, line, target, attribute, field, entries)
            self.order[key] = len(self.order)
        return key, effect

    def found(self, known: Known, owner: Any, attribute: str | None, key: Any = MISSING) -> None:
        """Note that a value was read from a place outside: an attribute, a cell, or what a container has under a key."""
        value = known.value
        if isinstance(value, ModuleType) or (
            isinstance(value, (FunctionType, type)) and purity.origin_of(value) != "user"
        ):
            return
        place = id(owner), attribute, known.name
        if is_plain(value) or isinstance(value, (FunctionType, type, MethodType, functools.partial, Number)):
            if place not in self.here.reads:
                kept = _kept_at(owner, attribute, key)
                self.here.reads[place] = Read(known.name, known.get, value, owner, kept)
        elif isinstance(value, (Tensor, Module, Optimizer)) and place not in self.here.holds:
            self.here.holds[place] = Read(known.name, known.get, value, None, _kept_at(owner, attribute, key))
        if not isinstance(value, (FunctionType, type)):
            self.place(owner, attribute)

    def called(self, known: Known) -> None:
        """Note that an object is called: another one in its place counts if it is of another class."""
        key = id(known.value), None, "class"
        self.here.reads.setdefault(
            key, Read(f"the class of {known.name}", lambda: type(known.get()), type(known.value))
        )

    def depends_on(self, name: str, get: Any, value: Any, owner: Any) -> None:
        """Note that what a function gives, which takes no argument, matters: it is asked again before each call."""
        self.here.reads.setdefault((name, id(value), id(owner)), Read(name, get, value))

    def identity(self, value: Value) -> None:
        """Note that it matters which objects these are."""
        for atom in value:
            if isinstance(atom, Known) and not is_plain(atom.value):
                self.depends_on(
                    f"which object {atom.name} is", partial(_identity, atom.get), id(atom.value), atom.value
                )

    def place(self, owner: Any, attribute: str | None) -> None:
        self.here.places.setdefault((id(owner), attribute), Place(owner, attribute))

    def looked_up(self, namespace: dict[str, Any], name: str) -> None:
        """Note a name in a module that the code looks up, whether it is there or not."""
        self.here.names.setdefault((id(namespace), name), (namespace, name))

    def computed(self, what: str, node: Any) -> Value:
        """Return a read of something whose name is not known: nothing can tell whether it changes."""
        self.effect("call", what, node, field="reflection")
        return ONE[OPAQUE]

    def known_strings(self, value: Value) -> list[str] | None:
        """Return the strings that a value may be; None if it may be anything else."""
        texts = [atom.value for atom in value if isinstance(atom, Known) and isinstance(atom.value, str)]
        return texts if len(texts) == len(value) else None

    def namespace_item(self, atom: Known, key: Value, node: Any) -> Value:
        """Return what there is under a name in a module, or which module of a name is loaded."""
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
        """Note modules, optimizers and tensors given to code that is not gone through: it may read all they hold."""
        for atom in value:
            if isinstance(atom, Known) and isinstance(atom.value, (Tensor, Module, Optimizer)):
                self.here.holds.setdefault((id(atom.value), None, atom.name), Read(atom.name, atom.get, atom.value))

    def change(self, atom: Atom) -> None:
        """Note that an object which the code made is changed."""
        self.here.changes.add(atom)

    def use(self, value: Value, deep: int = 0) -> None:
        """Note that the contents of containers from outside matter: `deep` levels of what they hold as well."""
        self.steps += len(value)
        for atom in value:
            if isinstance(atom, Known):
                self._use_contents(atom.value, atom.name, atom.get, deep)
            elif isinstance(atom, Fresh) and deep:
                self.use(atom.elements() - {atom}, deep - 1)
            elif isinstance(atom, Method):
                self.use(frozenset([atom.owner]), deep)

    def _use_contents(self, value: Any, name: str, get: Any, deep: int) -> None:
        if is_plain(value):
            return
        if in_class(type(value), "__next__") is not MISSING:
            self.effect("call", f"takes from the iterator `{name}`", None, value, field="iterator")
        if not isinstance(value, CONTAINERS) and type(value).__name__ != "deque":
            if purity.origin_of(type(value)) == "standard":  # a UserList, say
                self.place(value, None)
            return
        self.place(value, None)
        if id(value) not in self.here.reads:
            self.here.reads[id(value)] = Read(name, get, snapshot(value))
        if deep and not isinstance(value, np.ndarray):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                self._use_contents(each, f"{name}[{shown(key)}]", lambda each=each: each, deep - 1)

    # --- what the code puts into objects from outside

    def store(self, owner: Any, name: str | None, value: Value) -> None:
        """Note that a place may have another value from now on; without a name, any place in its owner."""
        self.put_into(self._stored(owner, name), value or ONE[PLAIN])

    def blur(self, name: str) -> None:
        """Note that an attribute of this name may be set, of no matter what."""
        self.store(None, name, ONE[PLAIN])

    def restored(self, owner: Any, name: str | None) -> Value:
        """Return what else than its present value the code may find at a place."""
        found = self._stored(owner, name).contents
        if name is not None:
            found |= self._stored(owner, None).contents | self._stored(None, name).contents
        return found

    def _stored(self, owner: Any, name: str | None) -> Fresh:
        key = id(owner), name
        if key not in self.outside:
            self.outside[key] = Fresh(None, reader=self.present)
            self.kept.append(owner)
        return self.outside[key]

    # --- objects that the code makes

    def fresh(self, node: Any, kind: Any, contents: Value, keys: Value | None = None) -> Value:
        """Return the object made at a place in the code, holding (at least) these contents."""
        key = id(self.frame), id(node), kind
        atom = self.atoms.get(key)
        if atom is None:
            atom = self.atoms[key] = Fresh(kind, reader=self.present)
        assert isinstance(atom, Fresh)
        self.put_into(atom, contents, keys)
        return frozenset([atom])

    def fresh_tuple(self, node: Any, items: list[Value], part: str = "") -> Value:
        key = id(self.frame), id(node), "tuple", part, len(items)
        atom = self.atoms.get(key)
        if atom is None:
            atom = self.atoms[key] = Fresh(tuple, [EMPTY] * len(items), self.present)
        assert isinstance(atom, Fresh)
        for number, item in enumerate(items):
            if atom.add_item(number, item):
                self.grown(atom.readers)
        return frozenset([atom])

    def put_into(self, atom: Fresh, contents: Value, keys: Value | None = None) -> None:
        """Add contents to an object; all of them may be keys, unless it is known which."""
        if atom.add(contents, contents if keys is None else keys):
            self.grown(atom.readers)

    def put_under(self, atom: Fresh, name: str, value: Value) -> None:
        """Add what a dict has under a name."""
        if atom.add_named(name, value):
            self.grown(atom.readers)

    def set_field(self, atom: Fresh, name: str, value: Value) -> None:
        if atom.add_field(name, value):
            self.grown(atom.readers)

    def set_variable(self, scope: Scope, name: str, value: Value) -> None:
        before = scope.values.get(name, EMPTY)
        scope.values[name] = joined(before, value)
        if scope.values[name] is not before:
            self.grown(scope.readers.get(name, ()))

    def variable(self, scope: Scope, name: str) -> Value:
        scope.readers.setdefault(name, set()).add(self.frame)
        return scope.values.get(name, EMPTY)

    def give_back(self, value: Value) -> None:
        assert self.frame is not None
        before = self.frame.returns
        self.frame.returns = joined(before, value)
        if self.frame.returns is not before:
            self.grown(self.frame.readers)


def _identity(get: Callable[[], Any]) -> int:
    return id(get())


def _kept_at(owner: Any, attribute: str | None, key: Any) -> tuple[Any, Any] | None:
    """Return what holds a value that was read, and its key there."""
    if key is not MISSING:
        return owner, key
    if isinstance(owner, (dict, CellType)):
        return owner, attribute
    own = instance_dict(owner)
    return (own, attribute) if attribute in own else None


def gives(result: Value) -> bool | None:
    """Return False if a value is always None, True if never, None if that is unknown."""
    nothing = {atom for atom in result if atom is NONE or (isinstance(atom, Known) and atom.value is None)}
    if not result:
        return None
    if len(nothing) == len(result):
        return False
    return None if nothing or result & {OPAQUE, OWN} else True
