"""Names and assignments."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from undertow._src.compile.effects.findings import cell_of
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.items import exact_items
from undertow._src.compile.effects.values import ONE, OPAQUE, PLAIN, Concrete, Scope, Value

_BUILTINS = vars(builtins)


def read_name(analysis: Analysis, node: ast.Name, scope: Scope) -> Value:
    """Return the possible values of a name."""
    name = node.id
    owner = scope.owner_of(name)
    if owner is not None:
        found = analysis.heap.variable(owner, name)
        if not found:
            analysis.unbound(name, owner)
        return found
    if name == "__class__" or name == "__debug__":
        cell = cell_of(analysis.function, name)
        return frozenset([Concrete(cell.cell_contents, name)]) if cell is not None else ONE[PLAIN]
    place, attribute, known = _outside_name(analysis, name)
    if known is None:
        analysis.unbound(name, None)
        return ONE[OPAQUE]
    if place is _BUILTINS:
        return frozenset([known])
    analysis.log.read(known, place, attribute)
    return analysis.heap.written(place, attribute) | {known}


def bind(analysis: Analysis, name: str, value: Value, scope: Scope, updating: bool = False, node: Any = None) -> None:
    """Bind a name to a value, in the scope that it belongs to."""
    owner = scope.owner_of(name)
    if owner is None:
        store_outside(analysis, name, value, node, updating)
    else:
        frame = analysis.at.frame
        if frame is not None and owner is not frame.scope and owner is frame.scope.owner_of(name):
            analysis.log.rebind(name)
        analysis.heap.set_variable(owner, name, value)


def _outside_name(analysis: Analysis, name: str) -> tuple[Any, str | None, Concrete | None]:
    """Return where a name from outside is kept (its owner, and its name there), and its value."""
    function = analysis.function
    cell = cell_of(function, name)
    if cell is not None:
        try:
            return cell, None, Concrete(cell.cell_contents, name, lambda: cell.cell_contents)
        except ValueError:
            return cell, None, None
    namespace = function.__globals__
    if name in namespace:
        return namespace, name, Concrete(namespace[name], name, lambda: namespace[name])
    if name in _BUILTINS:
        return _BUILTINS, name, Concrete(_BUILTINS[name], name)
    return namespace, name, None


def store_outside(analysis: Analysis, name: str, value: Value, node: Any, updating: bool) -> None:
    """Set a global variable, or a variable of an enclosing function."""
    owner, attribute, _ = _outside_name(analysis, name)
    if owner is _BUILTINS:
        owner = analysis.function.__globals__
    analysis.heap.write(owner, attribute, value)
    what = "nonlocal" if attribute is None else "global"
    analysis.log.store(updating, f"{what} `{name}`", node, owner, attribute)


def assign(analysis: Analysis, target: ast.expr, value: Value, scope: Scope, updating: bool = False) -> None:
    """Assign a value to a target, which may be several in a tuple."""
    if isinstance(target, ast.Name):
        bind(analysis, target.id, value, scope, updating, target)
    elif isinstance(target, ast.Attribute):
        name = mangled(analysis, target.attr)
        for atom in analysis.evaluate(target.value, scope):
            analysis.set_attribute(atom, name, value, target, updating)
    elif isinstance(target, ast.Subscript):
        key = analysis.evaluate(target.slice, scope)
        for atom in analysis.evaluate(target.value, scope):
            analysis.set_item(atom, key, value, target, updating)
    elif isinstance(target, ast.Starred):
        assign(analysis, target.value, analysis.heap.fresh(target, list, value), scope)
    elif isinstance(target, (ast.Tuple, ast.List)):
        exact = exact_items(analysis, value)
        if exact is not None and len(exact) == len(target.elts) and not starred(target.elts):
            for part, item in zip(target.elts, exact):
                assign(analysis, part, item, scope)
        else:
            items = analysis.elements(value, target)
            for part in target.elts:
                assign(analysis, part, items, scope)


def starred(nodes: list[ast.expr]) -> bool:
    """Return whether one of some expressions is unpacked."""
    return any(isinstance(node, ast.Starred) for node in nodes)


def mangled(analysis: Analysis, name: str) -> str:
    """Return the name of an attribute as Python stores it: with its class, if it is private."""
    if name.startswith("__") and not name.endswith("__"):
        parts = analysis.function.__code__.co_qualname.replace("<locals>.", "").split(".")
        if len(parts) > 1:
            return f"_{parts[-2].lstrip('_')}{name}"
    return name
