"""The program's source: the statement on a line, the expression that ran, and the code around it."""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterator
from functools import cached_property, lru_cache
from types import FrameType
from typing import Any

from undertow.why.places import Place, variables

_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)

Span = tuple[int | None, ...]  # line, column, end line, end column


def expression_span(node: ast.expr) -> Span:
    """Return the span of an expression in a file."""
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def span_of(place: Place) -> Span:
    """Return the exact span of the expression that ran at a place."""
    return place.line, place.column, place.end_line, place.end_column


class Source:
    """One parsed file, with the parent of each syntax node."""

    def __init__(self, file: str) -> None:
        self.name = file
        self.lines = linecache.getlines(file)
        try:
            self.tree: ast.AST = ast.parse("".join(self.lines))
        except (SyntaxError, ValueError):
            self.tree = ast.Module([], [])
        self.parents: dict[ast.AST, ast.AST] = {}
        self.by_span: dict[Span, list[ast.AST]] = {}
        self.statements: dict[int, ast.stmt] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, ast.expr):
                self.by_span.setdefault(expression_span(node), []).append(node)
            if isinstance(node, ast.stmt) and not isinstance(node, _DEFINITIONS):
                last = node.body[0].lineno - 1 if hasattr(node, "body") and node.body else node.end_lineno
                for line in range(node.lineno, (last or node.lineno) + 1):
                    self.statements[line] = node  # inner statements come later and replace outer ones

    def expression(self, place: Place) -> ast.expr | None:
        """Return the expression that ran at a place."""
        found = self.by_span.get(span_of(place))
        return found[0] if found else None  # type: ignore[return-value]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that contain a node, innermost first."""
        current: ast.AST | None = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    @cached_property
    def loop_variables(self) -> frozenset[str]:
        """The names that loops and comprehensions of the file bind."""
        loops = [node for node in ast.walk(self.tree) if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))]
        return frozenset(node.id for loop in loops for node in ast.walk(loop.target) if isinstance(node, ast.Name))

    def attribute_set(self, owner: str, name: str) -> int | None:
        """Return the line on which a class sets an attribute of its instances: `self.name = ...`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef) and node.name == owner:
                for inner in ast.walk(node):
                    targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
                    parts = [part for target in targets if target is not None for part in ast.walk(target)]
                    if any(isinstance(part, ast.Attribute) and ast.unparse(part) == f"self.{name}" for part in parts):
                        return inner.lineno  # type: ignore[attr-defined]
        return None

    @cached_property
    def imported(self) -> list[str]:
        """The files that this one imports from its own folder."""
        modules: list[str] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                modules += [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom):
                inside = f"{node.module}." if node.module else ""
                modules += [node.module or "", *(inside + name.name for name in node.names)]
        folder = os.path.dirname(self.name)
        files = [os.path.join(folder, *module.split(".")) + ".py" for module in dict.fromkeys(modules) if module]
        return [file for file in files if os.path.isfile(file)]

    def statement(self, place: Place) -> ast.stmt | None:
        """Return the statement that ran at a place; of several on one line, the one with the expression that ran."""
        node = self.expression(place)
        for outer in () if node is None else self.around(node):
            if isinstance(outer, ast.stmt):
                return self.statements.get(place.line) if isinstance(outer, _DEFINITIONS) else outer
        return self.statements.get(place.line)

    def function(self, node: ast.AST) -> ast.AST:
        """Return the function (or module) that contains a node."""
        for outer in self.around(node):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)):
                return outer
        return self.tree

    def in_loop(self, node: ast.AST) -> bool:
        """Whether a node is inside a loop of its function."""
        for outer in self.around(node):
            if isinstance(outer, (ast.For, ast.While, ast.ListComp, ast.GeneratorExp)):
                return True
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return False
        return False


@lru_cache(maxsize=256)
def source(file: str) -> Source:
    """Return the parsed source of a file."""
    return Source(file)


def call_at(place: Place) -> ast.Attribute | None:
    """Return the method that was called at a place: `net.fc1.register_forward_hook`, without its arguments."""
    node = source(place.file).expression(place)
    return node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


def called_at(place: Place) -> str:
    """Return the name of the function that was called at a place: `checkpoint` in `y = checkpoint(f, x)`."""
    node = source(place.file).expression(place)
    return name_called(node) if isinstance(node, ast.Call) else ""


def receiver(place: Place) -> str:
    """Return what a method was called on, as source text: `net.fc1` in `net.fc1.register_forward_hook(f)`."""
    called = call_at(place)
    return "" if called is None else ast.unparse(called.value)


def owner_at(place: Place) -> str:
    """Return the object whose attribute was read at a place, if it is a plain lookup: `acts[0]` in `acts[0].grad`."""
    node = source(place.file).expression(place)
    if not isinstance(node, ast.Attribute) or not all(isinstance(part, _LOOKED_UP) for part in ast.walk(node.value)):
        return ""
    return ast.unparse(node.value)


_LOOKED_UP = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.UnaryOp, ast.USub, ast.Load)


def value_of(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of an expression in a running function, if it only looks up names; None otherwise."""
    if not all(isinstance(part, _LOOKED_UP) for part in ast.walk(node)):
        return None
    try:
        return eval(compile(ast.Expression(node), "<why>", "eval"), frame.f_globals, variables(frame))
    except Exception:  # whatever the program's own attributes raise
        return None


def assigned(place: Place | None) -> str:
    """Return the variable that the statement at a place binds: `loss` for `loss = f(x)`; empty if not exactly one."""
    if place is None:
        return ""
    statement = source(place.file).statement(place)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        target = statement.target
    else:
        return ""
    return ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)) else ""


def carried_over(place: Place) -> str:
    """Return the variable that the statement at a place reads and that gets its result: `h` for `h = cell(x, h)`."""
    statement = source(place.file).statement(place)
    if not isinstance(statement, ast.Assign):
        return ""
    parts = (ast.Name, ast.Attribute)
    file = source(place.file)
    bound = [ast.unparse(node) for target in statement.targets for node in ast.walk(target) if isinstance(node, parts)]
    read = {ast.unparse(node) for node in ast.walk(statement.value) if isinstance(node, parts)}
    for other in ast.walk(file.function(statement)):  # `y, state = rnn(x, self.state)`, then `self.state = state`
        if isinstance(other, ast.Assign) and isinstance(other.value, parts) and ast.unparse(other.value) in bound:
            bound += [ast.unparse(target) for target in other.targets if isinstance(target, parts)]
    return next((name for name in bound if name in read and name != "self"), "")


def bound_to(place: Place | None, position: int = 0, count: int = 1) -> str:
    """Return the variable that gets one of `count` results of the expression at a place: `h` in `y, h = rnn(x)`."""
    if place is None or not is_whole_value(place):
        return ""
    statement = source(place.file).statement(place)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, (ast.Tuple, ast.List)):
        return assigned(place)
    parts = target.elts[position : position + 1] if len(target.elts) == count else []
    return ast.unparse(parts[0]) if parts and isinstance(parts[0], (ast.Name, ast.Attribute)) else ""


_SHORT = 40  # characters of an expression that stands for a name


def text_of(place: Place | None) -> str:
    """Return the source text of the expression that ran at a place, if it is short."""
    node = None if place is None else source(place.file).expression(place)
    text = "" if node is None else ast.unparse(node)
    return text if len(text) <= _SHORT else ""


def outline_of(place: Place | None) -> str:
    """Return the source text of an expression with the arguments of calls left out: `0.5 * image_loss(...)`."""
    node = None if place is None else source(place.file).expression(place)
    text = "" if node is None else _outline(node)
    return text if len(text) <= _SHORT else ""


def _outline(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return f"{_outline(node.func)}(...)"
    if isinstance(node, ast.BinOp):
        left, right = ast.Name(_outline(node.left)), ast.Name(_outline(node.right))
        return ast.unparse(ast.BinOp(left, node.op, right))
    return ast.unparse(node)


def operand_at(place: Place | None, position: int) -> str:
    """Return the variable that is an argument or operand of the expression that ran at a place: `y` in `f(x, y)`."""
    node = None if place is None else source(place.file).expression(place)
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else node.args if isinstance(node, ast.Call) else []
    part = parts[position] if position < len(parts) else None
    return ast.unparse(part) if isinstance(part, (ast.Name, ast.Attribute)) else ""


def goes_to_numpy(place: Place | None) -> bool:
    """Whether the result of the expression at a place is turned into an array at once: `x.detach().cpu().numpy()`."""
    node: ast.AST | None = None if place is None else source(place.file).expression(place)
    for outer in () if node is None or place is None else source(place.file).around(node):
        if not isinstance(outer, (ast.Attribute, ast.Call)):
            return False
        if isinstance(outer, ast.Attribute) and outer.attr == "numpy":
            return True
    return False


def is_whole_value(place: Place | None) -> bool:
    """Whether the expression that ran at a place is all that a statement assigns or returns."""
    if place is None:
        return False
    statement = source(place.file).statement(place)
    node = source(place.file).expression(place)
    return (
        node is not None and isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Return)) and statement.value is node
    )


def name_called(node: ast.Call) -> str:
    """Return the name of the function or method that a call calls."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
