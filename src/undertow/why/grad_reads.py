"""What the source does with a `.grad` that it reads: check, compare with None, or zero it."""

from __future__ import annotations

import ast

from undertow.why.places import Place
from undertow.why.source import source


def expects_none(place: Place | None) -> bool:
    """Whether `.grad` is read to check that it is None: in an assert, `all(… is None)` or `any(… is not None)`."""
    if place is None:
        return False
    file = source(place.file)
    node: ast.AST | None = file.expression(place)
    if node is None:
        return False
    test: type[ast.cmpop] | None = None
    for outer in file.around(node):
        if isinstance(outer, ast.Compare) and len(outer.ops) == 1 and isinstance(outer.ops[0], (ast.Is, ast.IsNot)):
            test = type(outer.ops[0])
        if isinstance(outer, ast.Assert):
            return test is ast.Is
        if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name):
            if outer.func.id == "all":
                return test is ast.Is
            if outer.func.id == "any":
                return test is ast.IsNot
        if isinstance(outer, ast.stmt):
            return False
    return False


def is_guard(place: Place | None) -> bool:
    """Whether `.grad` is read only to be compared with None."""
    if place is None:
        return False
    file = source(place.file)
    node = file.expression(place)
    parent = None if node is None else file.parents.get(node)
    return isinstance(parent, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)


def reads_of_grad(file: str) -> set[str]:
    """Return the expressions of a file whose `.grad` is read somewhere."""
    return {
        ast.unparse(node.value)
        for node in ast.walk(source(file).tree)
        if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load)
    }


def checks_requires_grad(place: Place | None) -> bool:
    """Whether `.grad` is read under a test of `requires_grad`: in `[p.grad for p in … if not p.requires_grad]`."""
    if place is None:
        return False
    file = source(place.file)
    node: ast.AST | None = file.expression(place)
    tests: list[ast.expr] = []
    for outer in file.around(node) if node is not None else ():
        if isinstance(outer, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            tests += [test for loop in outer.generators for test in loop.ifs]
        elif isinstance(outer, (ast.If, ast.IfExp)):
            tests.append(outer.test)
        elif isinstance(outer, (ast.FunctionDef, ast.Lambda)):
            break
    parts = [part for test in tests for part in ast.walk(test)]
    return any(isinstance(part, ast.Attribute) and part.attr == "requires_grad" for part in parts)


def only_clears(place: Place) -> bool:
    """Whether `.grad` is read only to be zeroed: `if p.grad is not None: p.grad.zero_()`."""
    file = source(place.file)
    statement = file.statement(place)
    if isinstance(statement, ast.If):
        text = "\n".join(ast.unparse(inner) for inner in statement.body)
        return "zero_()" in text or text.endswith(".grad = None")
    return isinstance(statement, ast.Expr) and ast.unparse(statement).endswith(("zero_()", "zero_(),"))
