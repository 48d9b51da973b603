"""Reads by strings: `globals()[…]`, `sys.modules`, `eval`, names of attributes in strings.

If the name is known, it counts as one that the code looks up, as if it were written there. If not, no guard can watch
what was read: the step is refused.
"""

from __future__ import annotations

import ast
import contextvars
import functools
import gc
import importlib
import inspect
import operator
import sys
import traceback
import weakref
from types import ModuleType
from typing import Any

from undertow._src.compile.effects.findings import cell_of
from undertow._src.compile.effects.interface import Analysis, FunctionModel
from undertow._src.compile.effects.models import builtin_functions
from undertow._src.compile.effects.models.builtin_functions import make_container
from undertow._src.compile.effects.objects import MISSING, held_by_variable, is_namespace
from undertow._src.compile.effects.values import (
    EMPTY,
    ONE,
    OPAQUE,
    PLAIN,
    CallArguments,
    Concrete,
    Fresh,
    Value,
    is_plain,
    only_string,
    strings_in,
)

# Functions whose result depends on state that no guard can watch: frames, all living objects, all context variables, the
# sizes and reference counts of objects, and garbage collection, which a trace changes.
UNSEEN = (
    sys._getframe, sys._current_frames, inspect.currentframe, inspect.stack, gc.get_objects, gc.get_referrers,
    gc.get_count, contextvars.copy_context, traceback.extract_stack, traceback.format_stack, exec, compile,
    gc.isenabled, gc.get_threshold, inspect.getgeneratorlocals, inspect.getgeneratorstate, inspect.getcoroutinelocals,
    inspect.getcoroutinestate, sys.getsizeof, sys.getrefcount, sys.getallocatedblocks, gc.get_stats,
    weakref.getweakrefcount, weakref.getweakrefs,
)  # fmt: skip
GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)


def _globals(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    return frozenset([Concrete(analysis.function.__globals__, "globals()")])


def _vars(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    if not arguments.positional:
        return _locals(analysis, function, arguments, node)
    found = EMPTY
    for atom in arguments.positional[0]:
        known = isinstance(atom, Concrete)
        found |= analysis.attribute(atom, "__dict__", node) if known else analysis.log.unknown("calls `vars`", node)
    return found


def _locals(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    assert analysis.at.frame is not None
    variables = analysis.at.frame.scope.values.values()
    return analysis.heap.fresh(node, dict, EMPTY.union(ONE[PLAIN], *variables), ONE[PLAIN])


def _eval(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    texts = strings_in(arguments.positional[0]) if len(arguments.positional) == 1 else None
    if not texts or arguments.keywords or arguments.more or analysis.at.frame is None:
        return analysis.log.unguardable("calls `eval` with code that is not known", node)
    found = EMPTY
    for text in texts:
        try:
            expression = analysis.once((id(node), text), lambda text=text: _parsed(text, node))  # type: ignore[misc]
        except SyntaxError:
            return ONE[PLAIN]  # raises
        found |= _evaluate(analysis, expression)
    return found


def _parsed(text: str, node: ast.expr) -> ast.expr:
    """Return the expression in a string, as if it were at a node."""
    expression = ast.parse(text.strip(), mode="eval").body
    for part in ast.walk(expression):
        if "lineno" in part._attributes:
            ast.copy_location(part, node)
    return expression


def _evaluate(analysis: Analysis, expression: ast.expr) -> Value:
    """Return the values of an expression in the current function; bytecode does not show the names that it looks up."""
    frame = analysis.at.frame
    assert frame is not None
    for part in ast.walk(expression):
        if isinstance(part, ast.Name) and frame.scope.owner_of(part.id) is None:
            if cell_of(frame.function, part.id) is None:
                analysis.log.lookup(frame.function.__globals__, part.id)
    return analysis.evaluate(expression, frame.scope)


def _import(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    whole = len(arguments.positional) > 3 or "fromlist" in arguments.keywords
    return _imported(analysis, arguments, node, whole)


def _import_module(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    return _imported(analysis, arguments, node, True)


def _imported(analysis: Analysis, arguments: CallArguments, node: Any, whole: bool) -> Value:
    names = strings_in(arguments.at(0))
    if not names or any(name.startswith(".") for name in names):
        return analysis.log.unguardable("imports a module by a name that is not known", node)
    found = EMPTY
    for name in names:
        for part in (name, name.partition(".")[0]):
            analysis.log.lookup(sys.modules, part)
        module = sys.modules.get(name if whole else name.partition(".")[0])
        found |= ONE[OPAQUE] if module is None else frozenset([Concrete(module, name)])
    return found


def call_getter(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Call a function that `operator.attrgetter`, `itemgetter` or `methodcaller` made."""
    getter = atom.value
    maker, given = getter.__reduce__()[:2]
    keywords = {}
    if isinstance(maker, functools.partial):  # of a method with keyword arguments
        given, keywords = maker.args, maker.keywords
    found = EMPTY
    for atom in arguments.first:
        if isinstance(getter, operator.methodcaller):
            if not all(map(is_plain, (*given, *keywords.values()))):
                return analysis.log.unknown("calls a method by its name", node)
            method = analysis.attribute(atom, given[0], node)
            named = {name: frozenset([Concrete(each, "given")]) for name, each in keywords.items()}
            passed = CallArguments([frozenset([Concrete(each, "given")]) for each in given[1:]], named)
            found |= analysis.call(method, passed, node)
        elif isinstance(getter, operator.itemgetter):
            for key in given:
                constant = key if isinstance(key, (str, int)) else ...
                found |= analysis.item(atom, constant, frozenset([Concrete(key, repr(key))]), node)
        else:
            for path in given:
                reached: Value = frozenset([atom])
                for name in path.split("."):
                    reached = EMPTY.union(*[analysis.attribute(each, name, node) for each in reached])
                found |= reached
    return found


def _make_getter(analysis: Analysis, kind: Any, arguments: CallArguments, node: Any) -> Value:
    texts = [only_string(value) for value in arguments.positional]
    if arguments.more or arguments.keywords or None in texts or not texts:
        return make_container(analysis, kind, arguments, node)
    return frozenset([Concrete(analysis.once((id(kind), *texts), lambda: kind(*texts)), kind.__name__)])


def _make_methodcaller(analysis: Analysis, kind: Any, arguments: CallArguments, node: Any) -> Value:
    """Return what `operator.methodcaller` makes: the name of the method is its key, the arguments its contents."""
    return analysis.heap.fresh(node, kind, arguments.rest().all(), arguments.first)


def call_methodcaller(analysis: Analysis, caller: Fresh, arguments: CallArguments, node: Any) -> Value:
    """Call what `operator.methodcaller` made in the code itself."""
    names, given = strings_in(caller.keys), caller.contents
    if names is None:
        return analysis.log.unguardable("calls a method by a name that is not known", node)
    methods = EMPTY.union(*[analysis.attribute(atom, name, node) for atom in arguments.first for name in names])
    return analysis.call(methods, CallArguments([], more=given, more_keywords=given), node)


def read_context_variable(analysis: Analysis, atom: Concrete, arguments: CallArguments) -> Value:
    """Return the value of a context variable, or a default; a guard watches it."""
    variable = atom.value
    value = variable.get(MISSING)
    analysis.log.place(variable, None)
    analysis.log.depends_on(f"{atom.name}.get()", lambda: variable.get(MISSING), value, variable)
    default = EMPTY.union(*arguments.positional)
    if value is MISSING and not default:
        value = held_by_variable(variable)
        if value is MISSING:
            return ONE[OPAQUE]  # it raises
    return default if value is MISSING else default | {Concrete(value, f"{atom.name}.get()")}


def _unseen(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value:
    name = f"{function.__module__}.{function.__name__}".removeprefix("builtins.")
    return analysis.log.unguardable(f"calls `{name}`", node)


def _of_all_names(analysis: Analysis, function: Any, arguments: CallArguments, node: Any) -> Value | None:
    """Call a builtin that iterates over its argument, which may be a namespace."""
    for each in arguments.all():
        if isinstance(each, Concrete) and (is_namespace(each.value) or isinstance(each.value, ModuleType)):
            return analysis.log.unguardable(f"goes through all of `{each.name}`", node)
    model = builtin_functions.FUNCTIONS.get(id(function))
    return None if model is None else model(analysis, function, arguments, node)


FUNCTIONS: dict[int, FunctionModel] = {
    **{id(function): _unseen for function in UNSEEN},
    **{id(function): _of_all_names for function in (len, dir, sorted, list, tuple, set, frozenset)},
    **{
        id(function): model
        for function, model in (
            (globals, _globals), (vars, _vars), (locals, _locals), (eval, _eval), (__import__, _import),
            (importlib.import_module, _import_module), (operator.attrgetter, _make_getter),
            (operator.itemgetter, _make_getter), (operator.methodcaller, _make_methodcaller),
        )
    },
}  # fmt: skip
