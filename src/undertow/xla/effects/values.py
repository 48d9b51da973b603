"""What the analysis knows about a value: a set of atoms, each one thing that the value may be."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow.xla.numbers import Figure


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
OWN = Simple("own")  # an object that a function of undertow's gave, which may be None
MODULE = Simple("module")
OPTIMIZER = Simple("optimizer")
GROUPS = Simple("groups")  # an optimizer's parameter groups
OPAQUE = Simple("opaque")  # anything

Value = frozenset  # of atoms; the empty one belongs to code that has not been reached yet
EMPTY: Value = frozenset()
ONE = {atom: frozenset([atom]) for atom in (PLAIN, NONE, TENSOR, MADE, TENSORS, OWN, MODULE, OPTIMIZER, GROUPS, OPAQUE)}
TENSORISH = {TENSOR, MADE, TENSORS, OWN}


class Known(Atom):
    """An object from outside, with the path that leads to it and a way to walk the path again."""

    __slots__ = ("get", "name", "value")

    def __init__(self, value: Any, name: str, get: Callable[[], Any] | None = None) -> None:
        self.value = value
        self.name = name
        self.get = get or (lambda: value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Known and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return f"known {self.name}"


class Fresh(Atom):
    """An object made by the code itself: `kind` is its class where that is known. It may hold objects from outside."""

    __slots__ = ("contents", "fields", "items", "keys", "kind")

    def __init__(self, kind: Any = None, items: list[Value] | None = None) -> None:
        self.kind = kind
        self.items = items  # of a tuple whose length is known
        self.contents: Value = EMPTY
        self.keys: Value = EMPTY  # those of the contents that may be keys of a dict
        self.fields: dict[str, Value] = {}

    def elements(self) -> Value:
        return self.contents.union(*self.items) if self.items else self.contents


class Closure(Atom):
    """A function or lambda that the code itself defines."""

    __slots__ = ("defaults", "frame", "node", "scope")

    def __init__(self, node: Any, scope: Any, frame: Any, defaults: dict[str, Value]) -> None:
        self.node = node
        self.scope = scope
        self.frame = frame
        self.defaults = defaults


class Bound(Atom):
    """A function together with the value that goes first, as in a method."""

    __slots__ = ("function", "owner")

    def __init__(self, function: Atom, owner: Atom) -> None:
        self.function = function
        self.owner = owner

    def __eq__(self, other: object) -> bool:
        return type(other) is Bound and other.function == self.function and other.owner == self.owner

    def __hash__(self) -> int:
        return hash((self.function, self.owner))


class Method(Atom):
    """A method by its name only, of a tensor, a builtin container or another thing that has no Python code to read."""

    __slots__ = ("name", "owner")

    def __init__(self, name: str, owner: Atom) -> None:
        self.name = name
        self.owner = owner

    def __eq__(self, other: object) -> bool:
        return type(other) is Method and other.name == self.name and other.owner == self.owner

    def __hash__(self) -> int:
        return hash((self.name, self.owner))


class Super(Atom):
    """`super()`: the search for an attribute begins behind `after`."""

    __slots__ = ("after", "owner")

    def __init__(self, after: type, owner: Atom) -> None:
        self.after = after
        self.owner = owner

    def __eq__(self, other: object) -> bool:
        return type(other) is Super and other.after is self.after and other.owner == self.owner

    def __hash__(self) -> int:
        return hash((self.after, self.owner))


class Arguments:
    """The arguments of one call. `more` and `more_keywords` come from unpacking, their number unknown."""

    __slots__ = ("keywords", "more", "more_keywords", "positional")

    def __init__(
        self,
        positional: list[Value],
        keywords: dict[str, Value] | None = None,
        more: Value = EMPTY,
        more_keywords: Value = EMPTY,
    ) -> None:
        self.positional = positional
        self.keywords = keywords or {}
        self.more = more
        self.more_keywords = more_keywords

    def after(self, *first: Value) -> Arguments:
        return Arguments([*first, *self.positional], self.keywords, self.more, self.more_keywords)

    def rest(self) -> Arguments:
        """All but the first."""
        return Arguments(self.positional[1:], self.keywords, self.more, self.more_keywords)

    def all(self) -> Value:
        return EMPTY.union(*self.positional, *self.keywords.values(), self.more, self.more_keywords)


class Scope:
    """The variables of one function or comprehension, each with all values that it ever gets."""

    __slots__ = ("globals", "names", "parent", "values")

    def __init__(self, names: set[str], global_names: set[str], parent: Scope | None) -> None:
        self.names = names
        self.globals = global_names
        self.parent = parent
        self.values: dict[str, Value] = {}


_SCALARS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), np.generic, enum.Enum)


def shown(key: Any) -> str:
    """A key of a container, for messages; a tensor is not asked for its values."""
    return repr(key) if is_plain(key) else f"a {type(key).__name__}"


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a string or the like, or a tuple of such: it cannot change, only be replaced."""
    kind = type(value)
    if kind in (int, float, str, bool, bytes, complex) or isinstance(value, (Figure, *_SCALARS)):
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_plain, value))
    return kind is range or kind is slice


def bound_names(node: Any) -> tuple[set[str], set[str]]:
    """The names that a function binds itself, and those that it declares global."""
    found = getattr(node, "_bound_names", None)
    if found is None:
        names, global_names, outer_names = set[str](), set[str](), set[str]()
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
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
