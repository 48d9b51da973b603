"""Abstract values: a value is a set of atoms, each one thing that it may be. A join is their union."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar


class Atom:
    """One thing that a value may be. Atoms compare by identity unless their class says otherwise."""

    __slots__ = ()


class Simple(Atom):
    """An atom about which there is nothing more to say than its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


PLAIN = Simple("plain")  # a number, a string, or a tuple of such
NONE = Simple("none")
TENSOR = Simple("tensor")  # a tensor from outside: an argument, a parameter
MADE = Simple("made")  # a tensor, or several, that the code itself computed
TENSORS = Simple("tensors")  # nested tuples, lists and dicts of tensors and None
OWN = Simple("own")  # an object that a function of undertow returned, which may be None
MODULE = Simple("module")
OPTIMIZER = Simple("optimizer")
GROUPS = Simple("groups")  # an optimizer's parameter groups
OPAQUE = Simple("opaque")  # anything

Value = frozenset  # of atoms; the empty value is that of code that has not been reached yet
EMPTY: Value = frozenset()
ONE = {atom: frozenset([atom]) for atom in (PLAIN, NONE, TENSOR, MADE, TENSORS, OWN, MODULE, OPTIMIZER, GROUPS, OPAQUE)}
TENSORISH = {TENSOR, MADE, TENSORS, OWN}
MOST_ATOMS = 500
MOST_STRINGS = 16


ANYTHING: Value = frozenset([OPAQUE])  # for a value with too many atoms: it stays that


def joined(before: Value, value: Value) -> Value:
    """Join two values; the first one itself if the second adds nothing."""
    if before is ANYTHING or value <= before:
        return before
    both = before | value
    return both if len(both) < MOST_ATOMS else ANYTHING


class Concrete(Atom):
    """An object from outside, with the path that leads to it and a function that follows the path again."""

    __slots__ = ("get", "name", "value")

    def __init__(self, value: Any, name: str, get: Callable[[], Any] | None = None) -> None:
        self.value = value
        self.name = name
        self.get = get or (lambda: value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Concrete:
            return False
        return other.value is self.value or (type(self.value) is type(other.value) is str and self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value) if type(self.value) is str else id(self.value)

    def __repr__(self) -> str:
        return f"known {self.name}"


class Fresh(Atom):
    """An object made by the analyzed code: `kind` is its class where that is known. It may hold objects from outside.

    Calls that look into it are analyzed again when it holds more: `reader` returns the call that is analyzed at present.
    """

    __slots__ = ("_contents", "_fields", "_items", "_keys", "_named", "_reader", "kind", "readers")

    def __init__(
        self, kind: Any = None, items: list[Value] | None = None, reader: Callable[[], Any] | None = None
    ) -> None:
        self.kind = kind
        self._items = items
        self._contents: Value = EMPTY
        self._keys: Value = EMPTY
        self._fields: dict[str, Value] = {}
        self._named: dict[str, Value] | None = {}
        self._reader = reader
        self.readers: set[Any] = set()

    def _look(self) -> None:
        if self._reader is not None:
            self.readers.add(self._reader())

    @property
    def items(self) -> list[Value] | None:
        """The items of a tuple whose length is known."""
        self._look()
        return self._items

    @property
    def contents(self) -> Value:
        self._look()
        return self._contents

    @property
    def keys(self) -> Value:
        """The contents that may be keys of a dict."""
        self._look()
        return self._keys

    @property
    def named(self) -> dict[str, Value] | None:
        """The possible values of a dict's entries by name; None if it has unknown keys."""
        self._look()
        return self._named if self.kind is dict else None

    def field(self, name: str) -> Value:
        self._look()
        return self._fields.get(name, EMPTY)

    def elements(self) -> Value:
        self._look()
        return self._contents.union(*self._items) if self._items else self._contents

    def all_held(self) -> Value:
        """All that it may hold, as elements and in attributes."""
        return self.elements().union(self.keys, *self._fields.values())

    # Each of these adds to the possible contents, and returns whether they have grown.

    def add(self, contents: Value, keys: Value) -> bool:
        before = self._contents, self._keys
        self._contents, self._keys = joined(self._contents, contents), joined(self._keys, keys)
        known = self._named is None or not contents
        if not known:
            self._named = None
        return not known or self._contents is not before[0] or self._keys is not before[1]

    def add_named(self, name: str, value: Value) -> bool:
        if self._named is None:
            return self.add(value | ONE[PLAIN], ONE[PLAIN])
        before = self._named.get(name), self._contents
        self._named[name] = joined(self._named.get(name, EMPTY), value)
        self._contents, self._keys = joined(self._contents, value | ONE[PLAIN]), ONE[PLAIN]
        return self._named[name] is not before[0] or self._contents is not before[1]

    def add_item(self, number: int, item: Value) -> bool:
        assert self._items is not None
        before = self._items[number]
        self._items[number] = joined(before, item)
        return self._items[number] is not before

    def add_field(self, name: str, value: Value) -> bool:
        before = self._fields.get(name, EMPTY)
        self._fields[name] = joined(before, value)
        return self._fields[name] is not before


@dataclass(slots=True, eq=False, repr=False)
class Closure(Atom):
    """A function or lambda that the code itself defines."""

    node: Any
    scope: Scope
    frame: Any  # the call that it is defined in
    defaults: dict[str, Value]
    readers: set[Any] = field(default_factory=set)  # the calls that have called it


@dataclass(slots=True, unsafe_hash=True)  # never changed; not frozen, because that is slower, and many are made
class Bound(Atom):
    """A function together with the value that goes first, as in a method."""

    function: Atom
    owner: Atom


@dataclass(slots=True, unsafe_hash=True)
class Method(Atom):
    """A method by its name only, of a tensor, a builtin container or another thing that has no Python code to read."""

    name: str
    owner: Atom


@dataclass(slots=True, unsafe_hash=True)
class Super(Atom):
    """`super()`: the search for an attribute begins after the class `after`."""

    after: type
    owner: Atom


@dataclass(slots=True, unsafe_hash=True)
class InstanceDict(Atom):
    """The `__dict__` of an object from outside."""

    owner: Concrete


@dataclass(slots=True, eq=False)
class CallArguments:
    """The arguments of one call. `more` and `more_keywords` come from unpacking, their number unknown.

    maybe: keywords by name that may be given, and may not.
    """

    positional: list[Value]
    keywords: dict[str, Value] = field(default_factory=dict)
    more: Value = EMPTY
    more_keywords: Value = EMPTY
    maybe: dict[str, Value] = field(default_factory=dict)

    def after(self, *first: Value) -> CallArguments:
        return CallArguments([*first, *self.positional], self.keywords, self.more, self.more_keywords, self.maybe)

    def rest(self) -> CallArguments:
        """All arguments but the first."""
        return CallArguments(self.positional[1:], self.keywords, self.more, self.more_keywords, self.maybe)

    def at(self, number: int) -> Value:
        """Return the possible values of a positional argument: the empty value, if there is none."""
        return self.positional[number] if number < len(self.positional) else EMPTY

    @property
    def first(self) -> Value:
        """The possible values of the first argument: anything, if it is unknown."""
        return self.positional[0] if self.positional else ONE[OPAQUE]

    def all(self) -> Value:
        """Return the possible values of any of them."""
        return EMPTY.union(
            *self.positional, *self.keywords.values(), *self.maybe.values(), self.more, self.more_keywords
        )


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The variables of one function or comprehension, each with all values that it ever gets, and what has read it."""

    names: set[str]
    globals: set[str]
    parent: Scope | None
    values: dict[str, Value] = field(default_factory=dict)
    readers: dict[str, set[Any]] = field(default_factory=dict)

    def owner_of(self, name: str) -> Scope | None:
        """Return the scope that binds a name, this one or one around it; None if the name comes from outside."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.globals:
                return None
            if name in scope.names:
                return scope
            scope = scope.parent
        return None


_SCALARS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), np.generic, enum.Enum)
_USUAL = frozenset((int, float, str, bool, bytes, complex, type(None)))
_NUMBERS = (SymbolicScalar, *_SCALARS)


def shown(key: Any) -> str:
    """Return a key of a container, for messages, without reading a tensor's values."""
    return repr(key) if is_plain(key) else f"a {type(key).__name__}"


def is_key(atom: Atom) -> bool:
    """Return whether a value is a known key, so that a mapping's entry for it is certain."""
    return isinstance(atom, Concrete) and (atom.value is None or isinstance(atom.value, (str, int)))


def class_of(atom: Atom) -> type | None:
    """Return the class of an object from outside, or of one that the code makes, if it is known."""
    kind = type(atom.value) if isinstance(atom, Concrete) else getattr(atom, "kind", None)
    return kind if isinstance(kind, type) else None


def known_string(text: str) -> Value:
    """Return a string, which may be the name of an attribute, or a key."""
    return frozenset([Concrete(text, repr(text))])


def strings_in(value: Value) -> list[str] | None:
    """Return the strings that a value may be; None if it may also be something else."""
    texts = [atom.value for atom in value if isinstance(atom, Concrete) and isinstance(atom.value, str)]
    return texts if len(texts) == len(value) else None


def few_strings(value: Value) -> list[str] | None:
    """Return the strings that a value may be, if they are few, and it may be nothing else."""
    return strings_in(value) if 0 < len(value) <= MOST_STRINGS else None


def only_string(value: Value) -> str | None:
    """Return the only string that a value may be."""
    texts = strings_in(value)
    return texts[0] if texts and len(texts) == 1 else None


def is_plain(value: Any) -> bool:
    """Return whether a value is a number, a string or the like, or a tuple of such: it cannot change, only be replaced."""
    kind = type(value)
    if kind in _USUAL or isinstance(value, _NUMBERS):
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_plain, value))
    return kind is range or kind is slice


def bound_names(node: Any) -> tuple[set[str], set[str]]:
    """Return the names that a function binds itself, and those that it declares global."""
    found = getattr(node, "_bound_names", None)
    if found is None:
        names, global_names, outer_names = set[str](), set[str](), set[str]()
        arguments = node.args
        for argument in (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ):
            if argument is not None:
                names.add(argument.arg)
        waiting = list(node.body) if isinstance(node.body, list) else [node.body]
        while waiting:
            part = waiting.pop()
            if isinstance(part, ast.Name):
                if not isinstance(part.ctx, ast.Load):
                    names.add(part.id)
                continue
            if isinstance(part, ast.Global):
                global_names.update(part.names)
            elif isinstance(part, ast.Nonlocal):
                outer_names.update(part.names)
            elif isinstance(part, (ast.Import, ast.ImportFrom)):
                names.update((alias.asname or alias.name).partition(".")[0] for alias in part.names)
            elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(part.name)
                waiting.extend(part.decorator_list)
                if not isinstance(part, ast.ClassDef):
                    waiting.extend([*part.args.defaults, *(default for default in part.args.kw_defaults if default)])
                continue
            elif isinstance(part, ast.Lambda):
                waiting.extend([*part.args.defaults, *(default for default in part.args.kw_defaults if default)])
                continue
            elif isinstance(part, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                # Its variables are its own; what := binds in it is the function's.
                names.update(inner.target.id for inner in ast.walk(part) if isinstance(inner, ast.NamedExpr))
                waiting.append(part.generators[0].iter)
                continue
            elif isinstance(part, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and part.name:
                names.add(part.name)
            elif isinstance(part, ast.MatchMapping) and part.rest:
                names.add(part.rest)
            waiting.extend(ast.iter_child_nodes(part))
        found = node._bound_names = names - global_names - outer_names, global_names
    return found
