"""Functions and statements of the source that causes look for."""

from __future__ import annotations

import ast

from undertow.why.places import Place
from undertow.why.source import assigned, name_called, source


def hands_back(place: Place) -> bool:
    """Whether a function returns what it computes at a place: `return f(x)`, or `y = f(x)` and then `return y`."""
    file = source(place.file)
    node, statement = file.expression(place), file.statement(place)
    inside = None if node is None else file.function(node)
    if isinstance(inside, ast.Lambda):
        return inside.body is node
    if isinstance(statement, ast.Return):
        return True
    name = assigned(place) if isinstance(statement, ast.Assign) else ""
    scope = file.function(statement) if statement is not None and name else ast.Module([], [])
    returns = [node for node in ast.walk(scope) if isinstance(node, ast.Return)]
    return any(node.value is not None and ast.unparse(node.value) == name for node in returns)


def uncalled(files: list[str], method: str) -> Place | None:
    """Return a statement that names a method and does not call it: `optimizer.step`."""
    for file in files:
        for node in ast.walk(source(file).tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute) and node.value.attr == method:
                return Place(file, node.lineno, "", (None, None, None), None)
    return None


def backward_after(place: Place, root: str) -> Place | None:
    """Return the statement `root.backward()` that comes after a place in its function."""
    file = source(place.file)
    statement = file.statement(place)
    for node in ast.walk(file.function(statement)) if statement is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            if node.lineno > place.line and ast.unparse(node.func.value) == root:
                return Place(place.file, node.lineno, place.function, (None, None, None), None)
    return None


def is_bare(place: Place) -> bool:
    """Whether the statement at a place is a call whose result is dropped."""
    statement = source(place.file).statement(place)
    return isinstance(statement, ast.Expr) and statement.value is source(place.file).expression(place)


def return_lines(file: str, first_line: int) -> list[int]:
    """Return the lines of the return statements of the function whose def (or first decorator) is on a line."""
    return [inner.lineno for inner in ast.walk(function_at(file, first_line)) if isinstance(inner, ast.Return)]


def lines_that_write(file: str, first_line: int) -> list[int]:
    """Return the lines of a function, given by its first line, that write in place: `x.mul_(y)`, `x[0] = 1`."""
    found: list[int] = []
    for node in ast.walk(function_at(file, first_line)):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        writes = called.endswith("_") and not called.endswith("__")
        if writes or isinstance(target, ast.Subscript) or isinstance(node, ast.AugAssign):
            found.append(node.lineno)  # type: ignore[attr-defined]
    return sorted(found)


def function_at(file: str, first_line: int) -> ast.AST:
    """Return the function whose def (or first decorator) is on a line, or the first lambda there."""
    found: ast.AST = ast.Module([], [])
    for node in ast.walk(source(file).tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if first_line in [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]:
                return node
        elif isinstance(node, ast.Lambda) and node.lineno == first_line and isinstance(found, ast.Module):
            found = node
    return found


def def_line(file: str, first_line: int) -> int:
    """Return the line of the `def` itself, below its decorators."""
    return getattr(function_at(file, first_line), "lineno", first_line)


def attribute_set_to(files: list[str], name: str) -> Place | None:
    """Return the first statement of some files that sets an attribute: `x.name = ...` or `setattr(x, "name", ...)`."""
    for file in files:
        for node in ast.walk(source(file).tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            call = node.args if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr" else []
            if any(isinstance(target, ast.Attribute) and target.attr == name for target in targets) or any(
                isinstance(argument, ast.Constant) and argument.value == name for argument in call
            ):
                return Place(file, getattr(node, "lineno", 0), "", (None, None, None), None)
    return None


def every_so_often(place: Place) -> bool:
    """Whether the statement at a place, or one that calls it, runs under a test with a remainder: `if i % 4 == 0:`."""
    for outer in place.chain():
        file = source(outer.file)
        node = file.statement(outer)
        for around in file.around(node) if node is not None else ():
            if isinstance(around, ast.If) and any(isinstance(part, ast.Mod) for part in ast.walk(around.test)):
                return True
    return False


def in_parts(place: Place, after: Place) -> bool:
    """Whether a statement runs in a loop over parts of a batch (`for x in xs.chunk(4):`) that does not contain `after`."""
    file = source(place.file)
    node, last = file.statement(place), file.statement(after)
    for around in file.around(node) if node is not None and place.file == after.file else ():
        if isinstance(around, ast.For) and all(part is not last for part in ast.walk(around)):
            return any(isinstance(part, ast.Call) and name_called(part) in ("chunk", "split", "tensor_split")
                       for part in ast.walk(around.iter))  # fmt: skip
    return False


def keyword(place: Place, name: str) -> object:
    """Return the constant that a call at a place is given for a keyword argument, if any."""
    node = source(place.file).expression(place)
    given = node.keywords if isinstance(node, ast.Call) else []
    values = [argument.value for argument in given if argument.arg == name]
    return values[0].value if values and isinstance(values[0], ast.Constant) else None


def alias_of(files: list[str], name: str) -> Place | None:
    """Return the statement that gives an object a further name: `target = policy`, `self.target = net`."""
    last = name.rpartition(".")[2]
    for file in files:
        for node in ast.walk(source(file).tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, (ast.Name, ast.Attribute)):
                continue
            if any(getattr(target, "attr", getattr(target, "id", "")) == last for target in node.targets):
                return Place(file, node.lineno, "", (None, None, None), None)
    return None
