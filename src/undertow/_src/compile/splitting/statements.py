"""Statements of a function: which may run apart from the others, and the local variables that they share."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FunctionType
from typing import Any

from undertow._src.compile.effects.values import bound_names
from undertow._src.compile.splitting.anf import sees_variables
from undertow._src.compile.splitting.recompiled_functions import defined

_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert, ast.Raise, ast.Delete)
_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)
_NEVER = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Return, ast.Global, ast.Nonlocal, ast.FunctionDef, ast.AsyncFunctionDef,
    ast.ClassDef, ast.AsyncFor, ast.AsyncWith,
)  # fmt: skip


class Statements:
    """The statements of one function: how they are nested, and which of them use a variable."""

    def __init__(self, function: FunctionType, node: ast.FunctionDef) -> None:
        self.function, self.node = function, node
        self.local = bound_names(node)[0]
        self.paths: dict[int, tuple[ast.stmt, ...]] = {}  # a statement, after those that contain it
        self._users: dict[str, list[tuple[ast.stmt, ...]]] = {}
        self._stored: dict[int, set[str]] = {}
        self._used: dict[int, set[str]] = {}
        self._goes: dict[tuple[int, bool], bool] = {}
        self._walk(node.body, ())

    def _walk(self, statements: list[ast.stmt], around: tuple[ast.stmt, ...]) -> None:
        for statement in statements:
            here = self.paths[id(statement)] = (*around, statement)
            nested = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            names: set[str] = set()
            for part in ast.walk(statement) if nested else _header(statement):
                names.update(_names(part))
            for name in names:
                self._users.setdefault(name, []).append(here)
            if not nested:
                for block in _blocks(statement):
                    self._walk(block, here)

    def at_line(self, line: int) -> list[tuple[ast.stmt, ...]]:
        """Return the innermost statements on a line."""
        found = [path for path in self.paths.values() if path[-1].lineno <= line <= (path[-1].end_lineno or line)]
        around = {id(each) for path in found for each in path[:-1]}
        return [path for path in found if id(path[-1]) not in around]

    def stored(self, statement: ast.stmt) -> set[str]:
        """Return the local variables that a statement sets."""
        if id(statement) not in self._stored:
            self._stored[id(statement)] = bound_names(defined("alone", (), [statement], statement))[0] & self.local
        return self._stored[id(statement)]

    def used(self, statement: ast.stmt) -> set[str]:
        """Return all names in a statement."""
        if id(statement) not in self._used:
            self._used[id(statement)] = {name for part in ast.walk(statement) for name in _names(part)}
        return self._used[id(statement)]

    def names_without(self, left_out: set[int]) -> set[str]:
        """Return the names in the function's code, of attributes too, without those in some statements."""
        names: set[str] = set()
        waiting: list[ast.AST] = [self.node]
        while waiting:
            part = waiting.pop()
            if id(part) not in left_out:
                names.update([part.attr] if isinstance(part, ast.Attribute) else _names(part))
                waiting += ast.iter_child_nodes(part)
        return names

    def group_of(
        self, statement: ast.stmt, whole_step: bool, changed: Callable[[ast.stmt], set[str]]
    ) -> list[ast.stmt] | None:
        """Return the statement with all that has to go along: those that use a variable which it sets, or whose
        object it changes.

        Return None if it can't move.
        """
        chosen: dict[int, ast.stmt] = {}
        waiting = [statement]
        while waiting:
            each = waiting.pop()
            if any(id(part) in chosen for part in self.paths[id(each)]):
                continue
            key = id(each), whole_step
            if key not in self._goes:
                self._goes[key] = self._may_go(each, whole_step)
            if not self._goes[key]:
                return None
            chosen[id(each)] = each
            for name in self.stored(each) | changed(each):
                waiting += [path[-1] for path in self._users.get(name, ())]
        return [each for each in chosen.values() if not any(id(part) in chosen for part in self.paths[id(each)][:-1])]

    def is_handled(self, statement: ast.stmt) -> bool:
        """Return whether the function handles what a statement raises."""
        return any(each.handlers and inside in each.body for each, inside in self._tries(statement))

    def _tries(self, statement: ast.stmt) -> list[tuple[ast.Try, ast.stmt]]:
        """Return the `try` statements around a statement, each with its inner statement on the way there."""
        path = self.paths[id(statement)]
        return [(each, inside) for each, inside in pairwise(path) if isinstance(each, ast.Try)]

    def _may_go(self, statement: ast.stmt, whole_step: bool) -> bool:
        if any(inside not in (*each.body, *each.orelse, *each.finalbody) for each, inside in self._tries(statement)):
            return False  # the exception is known only at that point
        if any(map(sees_variables, ast.walk(statement))):
            return False
        if _holds(statement, (ast.Raise, ast.Assert)) and self.is_handled(statement):
            return False  # on the host it would be too late
        if isinstance(statement, ast.Return):
            value = statement.value
            return whole_step and value is not None and not _holds(value, _NEVER)
        return isinstance(statement, _SIMPLE + _COMPOUND) and not _holds(statement, _NEVER) and not _escapes(statement)


def loaded_by(function: Any) -> set[str]:
    """Return the names that a function's own code reads, without that of functions inside it."""
    names: set[str] = set()
    waiting: list[ast.AST] = [*function.body] if isinstance(function.body, list) else [function.body]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            names.add(part.id)
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(part)
    return names


def _header(statement: ast.stmt) -> Iterator[ast.AST]:
    """Return the parts of a statement without the statements inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += [each for each in ast.iter_child_nodes(part) if not isinstance(each, ast.stmt)]


def _blocks(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value:
            if isinstance(value[0], ast.stmt):
                yield value
            elif isinstance(value[0], (ast.ExceptHandler, ast.match_case)):
                for each in value:
                    yield from _blocks(each)


def _names(part: ast.AST) -> Iterator[str]:
    if isinstance(part, ast.Name):
        yield part.id
    elif isinstance(part, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.FunctionDef, ast.ClassDef)) and part.name:
        yield part.name
    elif isinstance(part, ast.MatchMapping) and part.rest:
        yield part.rest
    elif isinstance(part, ast.alias):
        yield (part.asname or part.name).partition(".")[0]


def _holds(node: ast.AST, kinds: tuple[Any, ...]) -> bool:
    return any(isinstance(part, kinds) for part in ast.walk(node))


def _escapes(statement: ast.stmt) -> bool:
    """Return whether a statement breaks or continues a loop around it."""
    if isinstance(statement, (ast.Break, ast.Continue)):
        return True
    if isinstance(statement, (ast.For, ast.While)):
        return any(_escapes(each) for each in statement.orelse)
    return any(_escapes(each) for block in _blocks(statement) for each in block)
