"""Functions recompiled from their source: with a probe before some statements, or of one statement alone.

    losses.append(loss.item())    becomes    if probe(): losses.append(loss.item())

While a step is traced, the probe notes that the statement would run now and returns False; at other times, True.
"""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import operator
import warnings
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any

from undertow._src.compile.effects.syntax_trees import made_of
from undertow._src.compile.tracing.number_lookups import entry, is_in

CALL = ".call"  # a variable of functions with probes, which holds a separate object for each call
RETURNED = type("Returned", (), {"__repr__": lambda self: "what the step returns on the host"})()


def with_probes(
    function: FunctionType, node: ast.FunctionDef | ast.Lambda, probes: Mapping[int, Callable[[], bool]],
    stand_in: Callable[[ast.expr], Any] | None = None,
) -> CodeType | None:  # fmt: skip
    """Return the code of a function with probes before the statements with these ids; None if it can't be made.

    stand_in: returns a replacement of a called function, which may take that (`wraps`), or None.
    """
    copies: dict[int, Any] = {}
    twin = copy.deepcopy(node, copies)
    constants: dict[str, Any] = {_name(RETURNED): RETURNED}
    asked: dict[int, str] = {}
    for statement, probe in probes.items():
        asked[id(copies[statement])] = _name(probe)
        constants[_name(probe)] = probe
    _Probing(asked).visit(twin)
    if asked and isinstance(twin, ast.FunctionDef):
        begin = ast.Assign([ast.Name(CALL, ast.Store())], ast.Call(ast.Constant(_name(object)), [], []))
        twin.body.insert(0, ast.copy_location(begin, twin.body[0]))
        constants[_name(object)] = object
    for call in [part for part in ast.walk(twin) if isinstance(part, ast.Call)]:
        other = None if stand_in is None else stand_in(call.func)
        if other is not None:
            constant = ast.copy_location(ast.Constant(_name(other)), call.func)
            wraps = getattr(other, "wraps", False)
            call.func = ast.copy_location(ast.Call(constant, [call.func], []), call.func) if wraps else constant
            constants[_name(other)] = other
    if stand_in is not None:
        twin = _LookingUp(constants).visit(twin)
    if isinstance(twin, ast.Lambda):
        made = ast.copy_location(ast.Return(twin.body), twin)
        definition = defined("lambda_", (), [made], twin)
        definition.args = twin.args
        code = _code(function, definition, constants)
        return None if code is None else code.replace(co_name="<lambda>")
    return _code(function, twin, constants)


def alone(function: FunctionType, node: ast.FunctionDef, statement: ast.stmt, given: tuple[str, ...]) -> FunctionType:
    """Return a function that runs one statement of another: it takes local variables, and returns those that it has
    at its end.
    """
    body = [statement]
    first = function.__code__.co_varnames[:1]
    given = (
        *[name for name in given if name in first],
        *[name for name in given if name not in first],
    )  # for `super()`
    free = set(function.__code__.co_freevars)
    for kind in (ast.Global, ast.Nonlocal):
        names = sorted({name for part in ast.walk(node) if type(part) is kind for name in part.names})
        names = [name for name in names if kind is ast.Global or name in free]
        if names:
            body.insert(0, ast.copy_location(kind(names), statement))
    plain = whole = defined(node.name, given, body, statement)
    if not isinstance(statement, ast.Return):
        ending = ast.Return(ast.Call(ast.Name("locals", ast.Load()), [], []))
        whole = defined(node.name, given, [*body, ast.copy_location(ending, statement)], statement)
    code = _code(function, whole, {}, same_variables=False)
    assert code is not None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells.get(name) or CellType() for name in code.co_freevars)
    made = FunctionType(code, function.__globals__, node.name, None, closure)
    made_of(made, ast.fix_missing_locations(plain))
    return made


def defined(name: str, given: tuple[str, ...], body: list[ast.stmt], where: ast.AST) -> ast.FunctionDef:
    """Return the definition of a function."""
    node = ast.parse("def function(): pass").body[0]
    assert isinstance(node, ast.FunctionDef)
    node.name, node.body = name, body
    node.args.args = [ast.arg(each) for each in given]
    return ast.copy_location(node, where)


class _Probing(ast.NodeTransformer):
    def __init__(self, asked: dict[int, str]) -> None:
        self.asked = asked

    def visit(self, node: ast.AST) -> Any:
        name = self.asked.get(id(node))
        if name is None:
            return self.generic_visit(node)
        question = ast.Call(ast.Constant(name), [], [])
        otherwise = [ast.Return(ast.Constant(_name(RETURNED)))] if isinstance(node, ast.Return) else []
        asking = ast.If(question, [self.generic_visit(node)], otherwise)  # type: ignore[list-item, arg-type]
        for part in (asking, question, question.func, *otherwise, *[each.value for each in otherwise]):
            ast.copy_location(part, node)  # type: ignore[type-var]
        return asking


class _LookingUp(ast.NodeTransformer):
    """Replaces lookups by functions that also take numbers that are inputs of a program."""

    def __init__(self, constants: dict[str, Any]) -> None:
        self.constants = constants

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or isinstance(node.slice, (ast.Slice, ast.Tuple, ast.Constant)):
            return node
        return self._call(entry, node, [node.value, node.slice])

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) > 1 or not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return node
        found = self._call(is_in, node, [node.left, node.comparators[0]])
        return found if isinstance(node.ops[0], ast.In) else ast.copy_location(ast.UnaryOp(ast.Not(), found), node)

    def _call(self, function: Callable[..., Any], node: ast.expr, args: list[ast.expr]) -> ast.expr:
        self.constants[_name(function)] = function
        constant = ast.copy_location(ast.Constant(_name(function)), node)
        return ast.copy_location(ast.Call(constant, args, []), node)


def _name(value: Any) -> str:
    return f"\0{id(value)}"


def _code(
    function: FunctionType, node: ast.FunctionDef, constants: dict[str, Any], same_variables: bool = True
) -> CodeType | None:
    """Return the code of a definition compiled in the function's place: in its class, with its closure variables."""
    code = function.__code__
    node.returns = None
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [each and ast.Constant(None) for each in node.args.kw_defaults]
    inner: Any = node
    qualified = code.co_qualname.split(".")
    if len(qualified) > 1 and not qualified[-2].startswith("<"):  # private names and `super` refer to the class
        inner = ast.parse(f"class {qualified[-2]}: pass").body[0]
        inner.body = [node]
    elif "__class__" in code.co_freevars or any(map(_is_private, ast.walk(node))):
        return None
    variables = tuple(name for name in code.co_freevars if name != "__class__")
    around = defined("around", variables, [inner], node)
    if inner.name not in variables:
        around.body.insert(0, ast.Global([inner.name]))  # as in the original
    tree = ast.fix_missing_locations(ast.Module([around], []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # about calling constants, which the rewriting inserts
        flags = code.co_flags & _FUTURE
        compiled = compile(tree, code.co_filename, "exec", flags=flags, dont_inherit=True)
    found = _inside(compiled, node.name)
    if found is None or (same_variables and found.co_freevars != code.co_freevars):
        return None
    return _filled(found, constants).replace(co_qualname=code.co_qualname)


def _is_private(part: ast.AST) -> bool:
    name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
    return name.startswith("__") and not name.endswith("__")


def _inside(code: CodeType, name: str) -> CodeType | None:
    """Return the code of this name, two or three levels inside."""
    for around in code.co_consts:
        if isinstance(around, CodeType):
            for each in around.co_consts:
                if isinstance(each, CodeType):
                    if each.co_name == name and each.co_flags & 1:  # a function, not a class
                        return each
                    for method in each.co_consts:
                        if isinstance(method, CodeType) and method.co_name == name:
                            return method
    return None


def _filled(code: CodeType, constants: dict[str, Any]) -> CodeType:
    def filled(value: Any) -> Any:
        if isinstance(value, CodeType):
            return _filled(value, constants)
        return constants.get(value, value) if type(value) is str else value

    return code.replace(co_consts=tuple(map(filled, code.co_consts)))


_FUTURE = functools.reduce(
    operator.or_, [getattr(__future__, feature).compiler_flag for feature in __future__.all_feature_names]
)
