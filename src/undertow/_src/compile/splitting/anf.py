"""A-normal form: a statement is split into pieces with names, so that a part of it may run on the host by itself.

    losses.append(model(x).sum().item())    becomes    a = model(x); b = a.sum(); c = b.item(); losses.append(c)

Everything is still computed in the same order; methods are looked up, and texts formatted, at the end. An expression that
may be skipped (after `or`, in `a if c else b`) or repeated (in a comprehension) stays where it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import count
from typing import Any

_ENTERED = (
    ast.Tuple, ast.List, ast.Set, ast.Dict, ast.JoinedStr, ast.FormattedValue, ast.Starred, ast.GeneratorExp, ast.NamedExpr
)  # fmt: skip
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOKS = ("item", "numpy", "tolist")
_NUMBERS = ("float", "int", "bool", "round", "str", "len")
_LAZY = ("items", "keys", "values", "enumerate", "zip", "map", "filter", "reversed", "iter")  # pointless as pieces
_numbers = count(1)  # of pieces: a statement, and parts that begin at the same place, are split at different times
NEVER = (ast.Yield, ast.YieldFrom, ast.Await)
_HEADERS = {
    ast.Expr: "value", ast.Return: "value", ast.Assign: "value", ast.Assert: "test", ast.If: "test", ast.For: "iter",
}  # fmt: skip


def take_apart(node: ast.AST, statement: ast.stmt) -> bool:
    """Insert the pieces of a statement before it, in its function; return False if it has only one."""
    field = _HEADERS.get(type(statement))
    value = getattr(statement, field, None) if field else None
    if field is None or value is None:
        return False
    if any(isinstance(part, NEVER) or sees_variables(part) for part in ast.walk(value)):
        return False
    if _sets_again(value):
        return False
    whole = ast.unparse(statement)
    pieces = Pieces(statement)
    setattr(statement, field, pieces.entered(value))
    for block in _blocks(node):
        for place, each in enumerate(block):
            if each is statement:
                block[place:place] = pieces.made
                for piece in (*pieces.made, statement):
                    vars(piece)["whole"] = whole
                vars(node).pop("_bound_names", None)  # it now binds more names
                return bool(pieces.made)
    return False


def is_piece(statement: ast.stmt) -> bool:
    """Return whether a statement is a piece of a split statement."""
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], _Named)


def written(statement: ast.stmt) -> str:
    """Return the statement's source, on one line or several."""
    return getattr(statement, "whole", None) or ast.unparse(statement)


class _Named(ast.Name):
    """The name of a piece; no code can contain such a name."""


class Pieces:
    """The pieces of one statement, in the order in which they are computed."""

    def __init__(self, statement: ast.stmt) -> None:
        self._where = f"{statement.lineno}:{statement.col_offset}"
        self.made: list[ast.stmt] = []

    def named(self, part: Any) -> Any:
        """Return a name for an expression, which is computed before."""
        if part is None or isinstance(part, (ast.Name, ast.Constant, ast.Lambda)):
            return part
        if isinstance(part, (*_ENTERED, ast.Slice)) or looks_at_value(part):
            return self.entered(part)
        return self.name(self.entered(part))

    def name(self, part: Any) -> Any:
        """Return a name that replaces an expression and has its value."""
        name = f"piece {next(_numbers)} of {self._where}"
        made = ast.Assign([_Named(name, ast.Store())], part)
        self.made.append(ast.fix_missing_locations(ast.copy_location(made, part)))
        return ast.copy_location(ast.Name(name, ast.Load()), part)

    def entered(self, part: Any) -> Any:
        """Return an expression, with names for its parts."""
        if isinstance(part, ast.Call):
            part.func = self._called(part.func)
            part.args = [self.named(each) for each in part.args]
            for keyword in part.keywords:
                keyword.value = self.named(keyword.value)
        elif isinstance(part, ast.Compare):
            part.left = self.named(part.left)
            part.comparators[0] = self.named(part.comparators[0])
        elif isinstance(part, ast.Dict):
            for place, value in enumerate(part.values):
                part.keys[place], part.values[place] = self.named(part.keys[place]), self.named(value)
        elif isinstance(part, ast.BoolOp):
            part.values[0] = self.named(part.values[0])
        elif isinstance(part, ast.IfExp):
            part.test = self.named(part.test)
        elif isinstance(part, _COMPREHENSIONS):
            part.generators[0].iter = self._gone_through(part.generators[0].iter)
        elif isinstance(part, (ast.Tuple, ast.List, ast.Set)):
            part.elts = [self.named(each) for each in part.elts]
        elif isinstance(part, ast.JoinedStr):
            part.values = [self.named(each) for each in part.values]
        elif isinstance(part, ast.Subscript):
            part.value, part.slice = self.named(part.value), self.named(part.slice)
        elif isinstance(part, ast.Slice):
            part.lower, part.upper, part.step = map(self.named, (part.lower, part.upper, part.step))
        elif isinstance(part, ast.BinOp):
            part.left, part.right = self.named(part.left), self.named(part.right)
        elif isinstance(part, ast.UnaryOp):
            part.operand = self.named(part.operand)
        elif isinstance(part, ast.FormattedValue):
            part.value, part.format_spec = self.named(part.value), self.named(part.format_spec)
        elif isinstance(part, (ast.Attribute, ast.Starred)):
            part.value = self.named(part.value)
        elif isinstance(part, ast.NamedExpr):
            made = ast.Assign([part.target], self.named(part.value))
            self.made.append(ast.fix_missing_locations(ast.copy_location(made, part)))
            part = ast.copy_location(ast.Name(part.target.id, ast.Load()), part)
        return part

    def _gone_through(self, part: Any) -> Any:
        lazy = isinstance(part, ast.Call) and (getattr(part.func, "attr", "") or getattr(part.func, "id", "")) in _LAZY
        return self.entered(part) if lazy else self.named(part)

    def _called(self, part: Any) -> Any:
        """Return the called expression; for a method, the attribute of its object, which has a name or gets one."""
        if isinstance(part, ast.Attribute):
            whose = part.value
            looked_at = part.attr in _LOOKS and isinstance(whose, ast.Attribute)  # a tensor that an object holds
            part.value = self.named(whose) if looked_at else self._called(whose)
            return part
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "super":
            return part
        return self.named(part)


def sets_for_certain(value: ast.expr) -> bool:
    """Return whether each `:=` in an expression is always evaluated, and before its variable is used."""
    certain = {id(part) for part in _evaluated(value)}
    walrus = [part for part in ast.walk(value) if isinstance(part, ast.NamedExpr)]
    return all(id(part) in certain for part in walrus) and not _sets_again(value)


def _sets_again(value: ast.expr) -> bool:
    """Return whether `:=` sets a variable that is used to the left of it."""
    names = [part for part in ast.walk(value) if isinstance(part, ast.Name)]
    targets = [part.target for part in ast.walk(value) if isinstance(part, ast.NamedExpr)]
    begin = lambda part: (part.lineno, part.col_offset)
    return any(name.id == each.id and begin(name) < begin(each) for each in targets for name in names)


def _evaluated(part: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of an expression that are always evaluated, and once."""
    yield part
    if isinstance(part, ast.BoolOp):
        inner: Any = part.values[:1]
    elif isinstance(part, ast.IfExp):
        inner = [part.test]
    elif isinstance(part, ast.Compare):
        inner = [part.left, part.comparators[0]]
    else:
        inner = () if isinstance(part, (ast.Lambda, *_COMPREHENSIONS)) else ast.iter_child_nodes(part)
    for each in inner:
        yield from _evaluated(each)


def names_given_away(part: Any, looked_at: bool = False) -> set[str]:
    """Return the variables in an expression whose objects may be part of its value."""
    if isinstance(part, ast.Name):
        return set() if looked_at else {part.id}
    if isinstance(part, _COMPREHENSIONS):
        own = [part.key, part.value] if isinstance(part, ast.DictComp) else [part.elt]
        found = set[str]().union(*[names_given_away(each) for each in own])
        for each in reversed(part.generators):
            targets = {name.id for name in ast.walk(each.target) if isinstance(name, ast.Name)}
            found |= names_given_away(each.iter, found.isdisjoint(targets))
            found -= targets
        return found
    if isinstance(part, ast.IfExp):
        return names_given_away(part.body, looked_at) | names_given_away(part.orelse, looked_at)
    looks = isinstance(part, ast.Compare) or shows_value(part)
    return set[str]().union(*[names_given_away(each, looked_at or looks) for each in ast.iter_child_nodes(part)])


def shows_value(part: Any) -> bool:
    """Whether an expression turns what may be a tensor's value into a number or a text."""
    called = isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in _NUMBERS
    return called or isinstance(part, ast.FormattedValue) or looks_at_value(part)


def looks_at_value(part: Any) -> bool:
    """Return whether a call only reads a tensor's value into Python."""
    return isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _LOOKS


def sees_variables(part: Any) -> bool:
    """Whether a call may read all variables of the function around it, which a part of the function does not have."""
    if not isinstance(part, ast.Call) or not isinstance(part.func, ast.Name):
        return False
    return part.func.id in ("locals", "eval", "exec") or (part.func.id in ("vars", "dir") and not part.args)


def _blocks(node: ast.AST) -> Any:
    for part in ast.walk(node):
        for _, value in ast.iter_fields(part):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value
