"""Which methods of an object Python calls by itself: for an operator, a test, a loop, a builtin function."""

from __future__ import annotations

import ast
import functools
import operator
from typing import Any


def _named(names: str) -> tuple[str, ...]:
    return tuple(f"__{name}__" for name in names.split())


NOTHING: tuple[str, ...] = ()
TRUTH = _named("bool len")
TEXT = _named("format str repr")
HASHED = _named("hash eq")
LOOP = _named("iter next len length_hint getitem")
MEMBER = _named("contains iter next getitem eq ne hash missing")
ORDER = _named("lt gt le ge")
AS_NUMBER = _named("float int index complex")
TORCH = _named("torch_function array_ufunc array_function array")  # which take over a function that gets such an object

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift",
    ast.RShift: "rshift",
}  # fmt: skip
_BY_OPERATOR: dict[type[ast.AST], tuple[str, ...]] = {
    **{kind: _named(f"{name} r{name} i{name}") for kind, name in _OPERATORS.items()},
    ast.USub: ("__neg__",), ast.UAdd: ("__pos__",), ast.Invert: ("__invert__",), ast.Not: TRUTH,
    ast.Eq: _named("eq ne"), ast.NotEq: _named("eq ne"), ast.Lt: _named("lt gt"), ast.Gt: _named("lt gt"),
    ast.LtE: _named("le ge"), ast.GtE: _named("le ge"), ast.Is: NOTHING, ast.IsNot: NOTHING, ast.In: MEMBER,
    ast.NotIn: MEMBER,
}  # fmt: skip
EVERYTHING = tuple(
    dict.fromkeys(
        [
            *LOOP, *TRUTH, *TEXT, *AS_NUMBER, *MEMBER, *ORDER, *TORCH,
            *(name for names in _BY_OPERATOR.values() for name in names),
            *_named("abs round divmod rdivmod reversed bytes trunc"),
        ]
    )
)  # fmt: skip

_BY_FUNCTION: dict[int, tuple[str, ...]] = {
    id(function): names
    for functions, names in (
        ((isinstance, issubclass, callable, id, type, operator.is_, operator.is_not), NOTHING),
        ((len,), ("__len__",)),
        ((hash,), ("__hash__",)),
        ((repr, ascii, str, format), TEXT),
        ((int, float, complex, range, slice, bin, hex, oct, chr, operator.index), (*AS_NUMBER, "__trunc__")),
        ((bool, operator.not_, operator.truth), TRUTH),
        ((all, any), (*LOOP, *TRUTH)),
        ((list, tuple, zip, enumerate, map, iter), LOOP),
        ((dict, set, frozenset), (*LOOP, *HASHED, "__keys__")),
        ((sorted, min, max), (*LOOP, *ORDER)),
        ((sum,), (*LOOP, *_named("add radd"))),
        ((abs,), ("__abs__",)),
        ((functools.partial,), NOTHING),
    )
    for function in functions
}


def of_function(function: Any) -> tuple[str, ...]:
    """Return the methods of its arguments that a builtin function calls."""
    return _BY_FUNCTION.get(id(function), EVERYTHING)


def of_operator(node: ast.AST) -> tuple[str, ...]:
    """Return the methods that an expression or an assignment with an operator calls."""
    if isinstance(node, ast.Compare):
        return tuple(dict.fromkeys(name for each in node.ops for name in _BY_OPERATOR.get(type(each), EVERYTHING)))
    op: ast.AST | None = getattr(node, "op", None)
    return EVERYTHING if op is None else _BY_OPERATOR.get(type(op), EVERYTHING)
