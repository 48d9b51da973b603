"""Tests whose outcome is certain: code after a test that fails is not analyzed.

A value that the code may set counts as unknown (`Heap.written`). Values of objects from outside are known, because they are
guarded like all that a step reads: when one changes, the step is read and compiled again.
"""

from __future__ import annotations

import abc
import ast
import collections
import operator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.objects import MISSING, in_class
from undertow._src.compile.effects.values import (
    MADE,
    NONE,
    ONE,
    PLAIN,
    TENSOR,
    Atom,
    Bound,
    Closure,
    Concrete,
    Fresh,
    Value,
)
from undertow._tensor import Tensor

_SIMPLE = (str, int, bool, float, type(None))
_CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict)
_ALWAYS_TRUE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType)
_OPERATORS = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
UNSURE = type("Unsure", (), {"__repr__": lambda self: "unsure"})()


def agreed(answers: set[bool | None]) -> bool | None:
    """Return the common outcome of all; None if they differ, or if one is unknown."""
    return answers.pop() if len(answers) == 1 else None


def answered(decides: bool, answer: bool | None) -> Value:
    """Return a truth value: a known one if it is certain and tests are decided."""
    return ONE[PLAIN] if answer is None or not decides else frozenset([Concrete(answer, str(answer))])


def truth(value: Value) -> bool | None:
    """Return whether a value is true, if that is certain."""
    return agreed({_truth(atom) for atom in value})


def _truth(atom: Atom) -> bool | None:
    if atom is NONE:
        return False
    if isinstance(atom, (Closure, Bound)):
        return True
    if isinstance(atom, Fresh):
        kind = atom.kind
        return True if isinstance(kind, type) and purity.origin_of(kind) == "user" and _has_no_truth(kind) else None
    if not isinstance(atom, Concrete):
        return None
    value = atom.value
    if type(value) in _SIMPLE or type(value) in _CONTAINERS:
        return bool(value)
    if isinstance(value, _ALWAYS_TRUE):
        return True
    return True if not isinstance(value, Tensor) and _has_no_truth(type(value)) else None


def _has_no_truth(kind: type) -> bool:
    return in_class(kind, "__bool__") is MISSING and in_class(kind, "__len__") is MISSING


def compared(left: Value, op: ast.cmpop, right: Value) -> bool | None:
    """Return the result of a comparison, if that is certain."""
    answers: set[bool | None] = set()
    for first in left:
        for second in right:
            answers.add(_compared(first, op, second))
            if len(answers) > 1:
                return None
    return agreed(answers)


def _compared(first: Atom, op: ast.cmpop, second: Atom) -> bool | None:
    if isinstance(op, (ast.Is, ast.IsNot)):
        same = _same(first, second)
        return same if same is None or isinstance(op, ast.Is) else not same
    a, b = _constant(first), _constant(second)
    if isinstance(op, (ast.In, ast.NotIn)):
        if a is UNSURE or not isinstance(second, Concrete):
            return None
        found = _member(a, second.value)
        return found if found is None or isinstance(op, ast.In) else not found
    if a is UNSURE or b is UNSURE:
        return None
    try:
        return bool(_OPERATORS[type(op)](a, b))
    except TypeError:
        return None


def _constant(atom: Atom) -> Any:
    if atom is NONE:
        return None
    return atom.value if isinstance(atom, Concrete) and type(atom.value) in _SIMPLE else UNSURE


def _member(value: Any, container: Any) -> bool | None:
    if isinstance(container, str):
        return value in container if isinstance(value, str) else None
    if type(container) in _CONTAINERS and all(type(each) in _SIMPLE for each in container):
        return value in container
    return None


def _same(first: Atom, second: Atom) -> bool | None:
    """Return whether two values are one object; None for numbers and strings, where Python does not define it."""
    nothing = [atom is NONE or (isinstance(atom, Concrete) and atom.value is None) for atom in (first, second)]
    if all(nothing):
        return True
    if any(nothing):
        other = second if nothing[0] else first
        certain = other is TENSOR or isinstance(other, (Concrete, Fresh, Closure, Bound))
        return False if certain else None
    if isinstance(first, Concrete) and isinstance(second, Concrete):
        if first.value is second.value:
            return True
        return None if type(first.value) in _SIMPLE or type(second.value) in _SIMPLE else False
    return None


def is_instance(value: Value, kinds: list[Any] | None) -> bool | None:
    """Return the result of `isinstance`, if that is certain and no class overrides it."""
    if kinds is None or not all(type(kind) in (type, abc.ABCMeta) or purity.origin_of(kind) == "own" for kind in kinds):
        return None
    return agreed({_is_instance(atom, kinds) for atom in value})


def _is_instance(atom: Atom, kinds: list[Any]) -> bool | None:
    if atom is NONE:
        return type(None) in kinds or object in kinds
    if atom is TENSOR or atom is MADE:
        if any(issubclass(Tensor, kind) for kind in kinds):
            return True if atom is TENSOR else None
        if any(purity.origin_of(kind) != "user" or issubclass(kind, (Tensor, tuple, list, dict)) for kind in kinds):
            return None
        return False  # a class of the user that has nothing to do with tensors
    if isinstance(atom, Fresh) and isinstance(atom.kind, type) and purity.origin_of(atom.kind) == "user":
        return any(issubclass(atom.kind, kind) for kind in kinds)
    if isinstance(atom, Concrete) and not isinstance(atom.value, Tensor):
        return any(issubclass(type(atom.value), kind) for kind in kinds)
    return None
