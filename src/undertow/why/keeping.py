"""Find the statement that keeps a value alive: it puts the value, with its graph, into a container."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from undertow.why.places import Place
from undertow.why.source import Source, source
from undertow.why.statements import function_at

_GROWS = frozenset("append extend appendleft insert add update setdefault put push".split())
_ONLY_VALUES = frozenset("item detach tolist numpy float int str format".split())
_DEEP = 2  # how many calls deep a value is followed into functions of the program

Kept = tuple[str, int, str]  # the file, the line, and the container as source text
Target = tuple[Source, ast.AST, ast.expr]  # a file, a function in it, and the parameter that receives a value


def stores(place: Place) -> str:
    """Return the container into which the statement at a place puts something: `history` for `history.append(loss)`."""
    statement = source(place.file).statement(place)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        if isinstance(function, ast.Attribute) and function.attr in _GROWS:
            return ast.unparse(function.value)
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Subscript, ast.Attribute)):
        return ast.unparse(statement.targets[0])
    return ""


def is_comprehension(place: Place) -> bool:
    """Whether the statement at a place is `name = [... for ...]`."""
    statement = source(place.file).statement(place)
    return isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.ListComp, ast.DictComp))


def where_kept(place: Place) -> Kept | None:
    """Return where the value computed at a place, or the variable assigned from it, is put into a container."""
    file = source(place.file)
    statement = file.statement(place)
    if statement is None:
        return None
    for node, values, container in _stored([statement]):
        if any(_contains(file, value, place) for value in values):
            return _inside(file, node, values, None) or (file.name, node.lineno, container)
    if isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.ListComp, ast.DictComp)):
        made = statement.value.value if isinstance(statement.value, ast.DictComp) else statement.value.elt
        if _contains(file, made, place):
            return file.name, statement.lineno, ast.unparse(statement.targets[0])
    for target in _targets(statement):
        scope = file.tree if isinstance(target, ast.Attribute) else file.function(statement)
        found = _followed(file, scope, target, _DEEP)
        if found is not None:
            return found
    return _handed_on(file, statement, place)


def kept_by(file: str, line: int) -> Kept | None:
    """Return where the function defined at a line (a hook) puts one of its arguments into a container."""
    function = function_at(file, line)
    for parameter in function.args.args if isinstance(function, (ast.FunctionDef, ast.Lambda)) else ():
        found = _followed(source(file), function, ast.Name(parameter.arg, ast.Load()), _DEEP)
        if found is not None:
            return found
    return None


def _followed(file: Source, scope: ast.AST, target: ast.expr, deep: int) -> Kept | None:
    """Return where a function, or one that it calls, puts a variable into a container."""
    names = _with_parts(scope, target)
    for node, values, container in _stored([scope]):
        if any(_holds(value, name) for value in values for name in names):
            return _inside(file, node, values, names) or (file.name, node.lineno, container)
    for call in ast.walk(scope):
        if isinstance(call, ast.Call) and deep:
            found = _into_function(file, call, names, deep)
            if found is not None:
                return found
    for node, values, container in _stored([scope]):
        if any(_is_part(value, target) for value in values):
            return file.name, node.lineno, container
    return None


def _handed_on(file: Source, statement: ast.stmt, place: Place) -> Kept | None:
    """Return where a function of the program stores its argument: `log.note(model(x))`."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            for key, argument in _arguments(node):
                if _contains(file, argument, place):
                    found = _followed_into(file, node, key, _DEEP)
                    if found is not None:
                        return found
    return None


def _into_function(file: Source, call: ast.Call, names: list[ast.expr], deep: int) -> Kept | None:
    for key, argument in _arguments(call):
        if any(_holds(argument, name) for name in names):
            found = _followed_into(file, call, key, deep)
            if found is not None:
                return found
    return None


def _arguments(call: ast.Call) -> list[tuple[int | str, ast.expr]]:
    """Return the arguments of a call with their position or name."""
    return [*enumerate(call.args), *((word.arg, word.value) for word in call.keywords if word.arg)]


def _followed_into(file: Source, call: ast.Call, key: int | str, deep: int) -> Kept | None:
    known = _parameter(file, call, key)
    return None if known is None else _followed(*known, deep - 1)


def _inside(file: Source, node: ast.AST, values: list[ast.expr], names: list[ast.expr] | None) -> Kept | None:
    """Return the statement inside `metrics.add(loss)` that stores the value, if `add` is a method of the program."""
    if isinstance(node, ast.Call):
        for key, argument in _arguments(node):
            if names is None or any(_holds(argument, name) for name in names):
                return _followed_into(file, node, key, _DEEP)
    return None


def _parameter(file: Source, call: ast.Call, key: int | str) -> Target | None:
    """Return the function that a call runs, and the parameter that receives an argument.

    The function is found by name, in the file itself or in one that it imports. `metrics(loss=loss)` may run a
    `__call__` of the program.
    """
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    files = (file, *map(source, file.imported))
    for wanted, method in ((name, isinstance(call.func, ast.Attribute)), ("__call__", True)):
        for other in files:
            for node in ast.walk(other.tree):
                if isinstance(node, ast.FunctionDef) and node.name == wanted:
                    taken = _taken_by(node.args, key, method)
                    if taken is not None:
                        return other, node, ast.Name(taken.arg, ast.Load())
    return None


def _taken_by(parameters: ast.arguments, key: int | str, method: bool) -> ast.arg | None:
    """Return the parameter that receives an argument."""
    named = [*parameters.posonlyargs, *parameters.args]
    if isinstance(key, str):
        return next((one for one in (*named, *parameters.kwonlyargs) if one.arg == key), parameters.kwarg)
    if method and named and named[0].arg in ("self", "cls"):
        del named[0]
    return named[key] if key < len(named) else parameters.vararg


def _stored(scopes: list[ast.AST]) -> Iterator[tuple[ast.expr | ast.stmt, list[ast.expr], str]]:
    """Yield (node, values, container) for everything that puts values into a container."""
    for scope in scopes:
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS:
                yield node, [*node.args, *(word.value for word in node.keywords)], ast.unparse(node.func.value)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                yield node, [node.value], ast.unparse(node.targets[0].value)
            elif isinstance(node, ast.AugAssign):
                yield node, [node.value], ast.unparse(node.target)
            elif isinstance(node, ast.Assign) and (added := _added(node)):
                yield node, added, ast.unparse(node.targets[0])


def _added(node: ast.Assign) -> list[ast.expr]:
    """Return what `history = history + [loss]` or `history = [*history, loss]` adds."""
    parts: list[ast.expr] = []
    if isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        parts = [node.value.left, node.value.right]
    elif isinstance(node.value, (ast.List, ast.Tuple)):
        parts = [part.value if isinstance(part, ast.Starred) else part for part in node.value.elts]
    old = ast.unparse(node.targets[0])
    rest = [part for part in parts if ast.unparse(part) != old]
    return rest if len(rest) < len(parts) else []


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        first = statement.targets[0]
        return list(first.elts) if isinstance(first, (ast.Tuple, ast.List)) else [first]
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []


def _with_parts(scope: ast.AST, target: ast.expr) -> list[ast.expr]:
    """Return a variable, and the variables that loops over it bind."""
    names = [target]
    for node in ast.walk(scope):
        if isinstance(node, ast.For) and any(_is(part, target) for part in ast.walk(node.iter)):
            names += [part for part in ast.walk(node.target) if isinstance(part, ast.Name)]
    return names


def _is(node: ast.AST, name: ast.expr) -> bool:
    """Whether a node reads a variable; for `self.balance`, any `….balance`, since other objects may read it."""
    if isinstance(name, ast.Attribute):
        return isinstance(node, ast.Attribute) and node.attr == name.attr
    return isinstance(node, ast.Name) and isinstance(name, ast.Name) and node.id == name.id


def _holds(value: ast.AST, name: ast.expr) -> bool:
    """Whether an expression is a variable, or a list, tuple, set, dict or comprehension that contains it."""
    if _is(value, name):
        return True
    if isinstance(value, (ast.Tuple, ast.List, ast.Set)):
        return any(_holds(part, name) for part in value.elts)
    if isinstance(value, ast.Dict):
        return any(_holds(part, name) for part in value.values)
    if isinstance(value, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
        element = value.value if isinstance(value, ast.DictComp) else value.elt
        loops = value.generators
        over = any(_is(part, name) for loop in loops for part in ast.walk(loop.iter))
        bound = [part for loop in loops for part in ast.walk(loop.target) if isinstance(part, ast.Name)]
        return _holds(element, name) or (over and any(_holds(element, part) for part in bound))
    return False


def _is_part(value: ast.AST, name: ast.expr) -> bool:
    """Whether an expression is one entry of a variable: `out["loss"]`, `out.loss`, `out[0]`."""
    return isinstance(value, (ast.Subscript, ast.Attribute)) and _is(value.value, name)


def _contains(file: Source, value: ast.expr, place: Place) -> bool:
    """Whether an expression contains the one that ran at a place, as a tensor and not only as a number."""
    inner = file.expression(place)
    if inner is None:
        return False
    for node in (inner, *file.around(inner)):
        if isinstance(node, ast.Call) and node is not inner:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _ONLY_VALUES:
                return False
        if node is value:
            return True
    return False
