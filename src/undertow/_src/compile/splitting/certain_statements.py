"""Statements on the host that cannot raise: `log.append(norm)`, `stats[name] = norm.item()`, `print(f"{norm:.3f}")`.

Nothing has to be undone after them, so a program may write its results over its inputs before they run. Known are Python's
own containers, numbers, texts and tensors, as they are found in the trace. What is not proven counts as raising. Should a
statement raise after all (a list was replaced by something else), the call ends in a `CompileError`.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from inspect import getattr_static
from types import ModuleType
from typing import Any, NamedTuple

from undertow._src.base.modes import enable_grad, no_grad
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.guards.places import contents_of
from undertow._src.compile.splitting.host_statements import AsItIs, Statement
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.overrides.torch_function import overrides
from undertow._src.tensor.core import TensorCore

_DICTS = (dict, OrderedDict, defaultdict)
_ADDING: dict[type, tuple[str, ...]] = {list: ("append",), deque: ("append", "appendleft"), set: ("add",)}
_FORMAT = re.compile(r"[<>^=]?[+ -]?0?\d*,?(\.\d+)?[eEfFgG%]?")
_NUMBER, _TEXT, _OTHER = "number", "text", "other"  # the kind of an expression's value, unless it is an existing object
_ONE = "one"  # a tensor with one element
_PLAIN = (_NUMBER, _TEXT)


class _Unproven(Exception):
    """An expression may raise."""


class Certainty(NamedTuple):
    """What is known of a statement that cannot raise."""

    computes: bool  # with tensors


def cannot_raise(statement: Statement, variables: Mapping[str, Any]) -> Certainty | None:
    """Return the certainty that a statement, with its variables in the trace, does not raise; None if it may."""
    function = statement.function
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    names = {**vars(builtins), **function.__globals__, **{name: contents_of(cell) for name, cell in cells}}
    for name, value in variables.items():
        names[name] = value.value if type(value) is AsItIs else value
    proof = _Proof(names)
    try:
        proof.statement(statement.probe.statement)
    except _Unproven:
        return None
    return Certainty(proof.computes)


class _Proof:
    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self.computes = False

    # --- statements

    def statement(self, node: ast.stmt) -> None:
        """Raise _Unproven unless a statement cannot raise."""
        if isinstance(node, ast.Expr):
            self.kind(node.value)
        elif isinstance(node, ast.Assign):
            self.kind(node.value)
            for target in node.targets:
                self._set(target)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            if not (self.kind(node.target) == self.kind(node.value) == _NUMBER):
                raise _Unproven
            self._set(node.target)
        elif isinstance(node, ast.If):
            self._number_or_one(node.test)
            for each in (*node.body, *node.orelse):
                self.statement(each)
        elif isinstance(node, ast.With) and all(map(self._is_grad_mode, node.items)):
            for each in node.body:
                self.statement(each)
        elif not isinstance(node, ast.Pass):
            raise _Unproven

    def _is_grad_mode(self, item: ast.withitem) -> bool:
        called = item.context_expr
        if not isinstance(called, ast.Call) or called.args or called.keywords or item.optional_vars is not None:
            return False
        return self._object(called.func) in (no_grad, enable_grad)

    def _set(self, target: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            if type(self._object(target.value)) in _DICTS and self.kind(target.slice) in _PLAIN:
                return
        elif isinstance(target, ast.Attribute):
            owner = self._object(target.value)
            kind, inherited = type(owner), getattr_static(type(owner), target.attr, None)
            if kind.__setattr__ is object.__setattr__ and not hasattr(type(inherited), "__set__"):
                if target.attr in instance_dict(owner):
                    return
        raise _Unproven

    # --- expressions

    def kind(self, node: ast.expr | None) -> Any:
        """Return the kind of an expression's value."""
        if isinstance(node, ast.Constant):
            return _of(node.value)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return _of(self._object(node))
        if isinstance(node, (ast.Tuple, ast.List)):
            for part in node.elts:
                self.kind(part)
            return _OTHER
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if self.kind(key) not in _PLAIN:
                    raise _Unproven
                self.kind(value)
            return _OTHER
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                self._formatted(part)
            return _TEXT
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            operands = {self.kind(node.left), self.kind(node.comparators[0])}
            if operands == {_NUMBER} or isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                return _NUMBER
        if isinstance(node, ast.Call):
            return self._call(node)
        raise _Unproven

    def _object(self, node: ast.expr) -> Any:
        """Return the object that is an expression's value in the trace; calls have one like it."""
        if isinstance(node, ast.Name) and node.id in self._names:
            return self._names[node.id]
        if isinstance(node, ast.Attribute):
            owner = self._object(node.value)
            if type(owner) is ModuleType and node.attr in vars(owner):
                return vars(owner)[node.attr]
            if not isinstance(owner, TensorCore) and type(owner).__getattribute__ is object.__getattribute__:
                held, inherited = instance_dict(owner), getattr_static(type(owner), node.attr, None)
                if node.attr in held and not hasattr(type(inherited), "__get__"):
                    return held[node.attr]
        if isinstance(node, ast.Subscript):
            owner = self._object(node.value)
            if type(owner) in _DICTS and self.kind(node.slice) in _PLAIN:
                return self._entry(owner, node.slice)
        raise _Unproven

    def _entry(self, owner: Any, node: ast.expr) -> Any:
        if type(owner) is defaultdict and owner.default_factory in (list, deque, set, int, float):
            if all(type(each) is owner.default_factory for each in owner.values()):
                return owner.default_factory()
        key = node.value if isinstance(node, ast.Constant) else self._object(node)
        if isinstance(key, SymbolicScalar) or key not in owner:
            raise _Unproven
        return owner[key]

    def _call(self, node: ast.Call) -> Any:
        given = [self.kind(each) for each in node.args]
        if isinstance(node.func, ast.Attribute):
            owner = self._object(node.func.value)
            if isinstance(owner, TensorCore) and not given and not node.keywords:
                if node.func.attr in ("item", "tolist") and _of(owner) == _ONE:
                    return _NUMBER
                if node.func.attr == "detach":
                    return _of(owner)
            hashable = type(owner) is not set or given[:1] in ([_NUMBER], [_TEXT])
            if node.func.attr in _ADDING.get(type(owner), ()) and len(given) == 1 and not node.keywords and hashable:
                return _of(None)
        elif isinstance(node.func, ast.Name):
            called = self._names.get(node.func.id)
            if called is print and all(each.arg in ("sep", "end", "flush") for each in node.keywords):
                for each in node.keywords:
                    self.kind(each.value)
                return _of(None)
            if not node.keywords and len(given) == 1 and given[0] in (_NUMBER, _ONE) and called in (float, bool, abs):
                return _NUMBER
            if called is str and given in ([_NUMBER], [_TEXT], [_ONE]):
                return _TEXT
            if called is round and given == [_NUMBER, _NUMBER] and isinstance(node.args[1], ast.Constant):
                return _NUMBER
        raise _Unproven

    def _number_or_one(self, node: ast.expr) -> None:
        if self.kind(node) not in (_NUMBER, _ONE, _TEXT):
            raise _Unproven

    def _operation(self, node: ast.BinOp) -> Any:
        left, right = self.kind(node.left), self.kind(node.right)
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) and {left, right} <= {_NUMBER, _ONE}:
            self.computes = self.computes or _ONE in (left, right)
            return _ONE if _ONE in (left, right) else _NUMBER
        if isinstance(node.op, ast.Add) and left == right == _TEXT:
            return _TEXT
        nonzero = isinstance(node.right, ast.Constant) and type(node.right.value) in (int, float) and node.right.value
        if isinstance(node.op, (ast.Mod, ast.Div, ast.FloorDiv)) and left == right == _NUMBER and nonzero:
            return _NUMBER
        raise _Unproven

    def _formatted(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            return
        assert isinstance(node, ast.FormattedValue)
        kind, spec = self.kind(node.value), node.format_spec
        if spec is None:
            if kind in (_NUMBER, _TEXT, _ONE):
                return
        elif isinstance(spec, ast.JoinedStr) and all(isinstance(each, ast.Constant) for each in spec.values):
            text = "".join([str(each.value) for each in spec.values if isinstance(each, ast.Constant)])
            if kind in (_NUMBER, _ONE) and _FORMAT.fullmatch(text) and (kind == _NUMBER or "," not in text):
                return
        raise _Unproven


def _of(value: Any) -> Any:
    """Return the kind of an object."""
    if isinstance(value, SymbolicScalar) or type(value) in (int, float, bool):
        return _NUMBER
    if type(value) is str:
        return _TEXT
    if isinstance(value, TensorCore) and value._is_strided and value._array.dtype.kind != "c":
        return _ONE if value._array.size == 1 and not overrides(value) else _OTHER
    return _OTHER
