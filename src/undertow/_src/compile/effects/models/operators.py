"""Operators, and the special methods that Python calls by itself."""

from __future__ import annotations

import ast
import collections
from types import FunctionType
from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.items import dict_values
from undertow._src.compile.effects.models.texts import show
from undertow._src.compile.effects.objects import in_class
from undertow._src.compile.effects.purity import is_tensor, is_users_function
from undertow._src.compile.effects.special_methods import EVERYTHING, of_operator
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    NONE,
    ONE,
    OWN,
    PLAIN,
    TENSORISH,
    Bound,
    CallArguments,
    Closure,
    Concrete,
    Fresh,
    Method,
    Value,
    class_of,
    is_plain,
)
from undertow.nn import Module


def call_special_methods(
    analysis: Analysis, value: Value, node: Any, others: Value = EMPTY, names: tuple[str, ...] = EVERYTHING
) -> Value:
    """Call those special methods of these names that users' classes define."""
    found = EMPTY
    for atom in value:
        kind = class_of(atom)
        if kind is None or purity.origin_of(kind) != "user":
            continue
        for name in names:
            method = in_class(kind, name)
            method = method.__func__ if isinstance(method, (classmethod, staticmethod)) else method
            if is_users_function(method) and not _is_generated(method, kind):
                arguments = CallArguments([frozenset([atom])], more=others | value)
                found |= analysis.call_function(method, arguments, node)
    return found


def _is_generated(method: FunctionType, kind: type) -> bool:
    """Return whether `dataclass` or `namedtuple` wrote the method."""
    written = method.__code__.co_filename.startswith("<")
    return written and ("__dataclass_fields__" in dir(kind) or hasattr(kind, "_fields"))


def arithmetic(analysis: Analysis, values: list[Value], node: Any) -> Value:
    """Return the result of an operator for these operands."""
    result = EMPTY
    operands = EMPTY.union(*values)
    names = of_operator(node)
    analysis.log.contents(operands)
    if isinstance(getattr(node, "op", None), ast.Mod):
        show(analysis, operands, node)  # the left one may be a string
    for atom in operands:
        if isinstance(atom, Method):
            atom = atom.owner
        if atom in TENSORISH:
            result |= ONE[MADE]
        elif atom in (PLAIN, NONE) or isinstance(atom, (Closure, Bound)):
            result |= ONE[PLAIN]
        elif isinstance(atom, Fresh):
            kind = atom.kind if atom.kind in (list, tuple, dict, set) else None
            result |= analysis.heap.fresh(node, kind, atom.elements())
            result |= analysis.protocols(frozenset([atom]), node, operands, names)
        elif isinstance(atom, Concrete):
            result |= _with_known(analysis, atom, node)
            result |= analysis.protocols(frozenset([atom]), node, operands, names)
        else:
            result |= analysis.log.unknown("computes with something unknown", node)
    return result


def _with_known(analysis: Analysis, atom: Concrete, node: Any) -> Value:
    """Return the result of an operator in C for an object from outside."""
    value = atom.value
    if is_plain(value) or isinstance(value, (type, FunctionType, Module)):
        return ONE[PLAIN]
    if is_tensor(value):
        return ONE[MADE]
    if isinstance(value, np.ndarray):
        return analysis.heap.fresh(node, None, ONE[PLAIN])
    if isinstance(value, (list, dict, set, frozenset, tuple, collections.deque)):
        return analysis.heap.fresh(node, None, dict_values(analysis, frozenset([atom]), node)) | ONE[PLAIN]
    return {"own": ONE[OWN], "user": EMPTY}.get(purity.origin_of(type(value)), ONE[PLAIN])
