"""Statements: what each does. `STATEMENTS` is the table by which the analyzer finds them.

A statement that returns False is one after which control does not go on to the next.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import Any

from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.items import write_into
from undertow._src.compile.effects.models.operators import arithmetic
from undertow._src.compile.effects.models.texts import show
from undertow._src.compile.effects.syntax.expressions import make_function, test
from undertow._src.compile.effects.syntax.names import assign, bind, store_outside
from undertow._src.compile.effects.values import EMPTY, NONE, ONE, OPAQUE, PLAIN, CallArguments, Concrete, Fresh, Scope


def _expression(analysis: Analysis, node: ast.Expr, scope: Scope) -> None:
    analysis.evaluate(node.value, scope)


def _nothing(analysis: Analysis, node: ast.stmt, scope: Scope) -> None:
    pass


def _jump(analysis: Analysis, node: ast.stmt, scope: Scope) -> bool:
    return False


def _return(analysis: Analysis, node: ast.Return, scope: Scope) -> bool:
    analysis.heap.set_result(ONE[NONE] if node.value is None else analysis.evaluate(node.value, scope))
    return False


def _raise(analysis: Analysis, node: ast.Raise, scope: Scope) -> bool:
    for part in (node.exc, node.cause):
        if part is not None:
            raised = analysis.evaluate(part, scope)
            for atom in raised:
                if isinstance(atom, Concrete) and isinstance(atom.value, type):
                    analysis.call_atom(atom, CallArguments([]), part)
    return False


def _assert(analysis: Analysis, node: ast.Assert, scope: Scope) -> None:
    test(analysis, node.test, scope)
    if node.msg is not None:
        show(analysis, analysis.evaluate(node.msg, scope), node)


def _assign(analysis: Analysis, node: ast.Assign, scope: Scope) -> None:
    value = analysis.evaluate(node.value, scope)
    for target in node.targets:
        assign(analysis, target, value, scope)


def _annotated_assign(analysis: Analysis, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        assign(analysis, node.target, analysis.evaluate(node.value, scope), scope)


def _augmented_assign(analysis: Analysis, node: ast.AugAssign, scope: Scope) -> None:
    target = node.target
    before = analysis.evaluate(target, scope)
    right = analysis.evaluate(node.value, scope)
    for atom in before - {OPAQUE} if PLAIN in before else before:  # a value that began as a number is not from outside
        write_into(analysis, atom, right, node, ast.unparse(target))
    result = arithmetic(analysis, [before, right], node) | (before - {PLAIN, NONE})
    assign(analysis, target, result, scope, updating=True)


def _delete(analysis: Analysis, node: ast.Delete, scope: Scope) -> None:
    for target in node.targets:
        if isinstance(target, ast.Attribute):
            for atom in analysis.evaluate(target.value, scope):
                analysis.set_attribute(atom, target.attr, ONE[NONE], target, updating=True)
        elif isinstance(target, ast.Subscript):
            analysis.evaluate(target.slice, scope)
            for atom in analysis.evaluate(target.value, scope):
                analysis.set_item(atom, EMPTY, EMPTY, target, updating=True)
        elif isinstance(target, ast.Name):
            if scope.owner_of(target.id) is None:
                store_outside(analysis, target.id, ONE[PLAIN], target, updating=True)
        else:
            analysis.log.effect("call", "deletes several things", target)


def _if(analysis: Analysis, node: ast.If, scope: Scope) -> bool:
    true, false = test(analysis, node.test, scope)
    first = true and analysis.run_block(node.body, scope)
    second = false and analysis.run_block(node.orelse, scope)
    return first or second


def _for(analysis: Analysis, node: ast.For, scope: Scope) -> None:
    assign(analysis, node.target, analysis.elements(analysis.evaluate(node.iter, scope), node.iter), scope)
    analysis.run_block(node.body, scope)
    analysis.run_block(node.orelse, scope)


def _while(analysis: Analysis, node: ast.While, scope: Scope) -> bool:
    true, _ = test(analysis, node.test, scope)
    if true:
        analysis.run_block(node.body, scope)
    analysis.run_block(node.orelse, scope)
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    return not endless or any(isinstance(part, ast.Break) for part in ast.walk(node))


def _with(analysis: Analysis, node: ast.With, scope: Scope) -> bool:
    lets_errors_pass = True
    for item in node.items:
        manager = analysis.evaluate(item.context_expr, scope)
        entered = EMPTY
        for atom in manager:
            result, passes = analysis.enter(atom, item.context_expr)
            entered |= result
            lets_errors_pass = lets_errors_pass and passes
        if item.optional_vars is not None:
            assign(analysis, item.optional_vars, entered, scope)
    return analysis.run_block(node.body, scope) or not lets_errors_pass


def _try(analysis: Analysis, node: ast.Try, scope: Scope) -> bool:
    goes_on = analysis.run_block(node.body, scope)
    if goes_on:
        goes_on = analysis.run_block(node.orelse, scope)
    else:
        analysis.run_block(node.orelse, scope)
    for handler in node.handlers:
        if handler.type is not None:
            analysis.evaluate(handler.type, scope)
        if handler.name is not None:
            bind(analysis, handler.name, analysis.heap.fresh(handler, BaseException, ONE[PLAIN]), scope)
        goes_on = analysis.run_block(handler.body, scope) or goes_on
    ends = analysis.run_block(node.finalbody, scope)
    return goes_on and ends


def _import(analysis: Analysis, node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        module = sys.modules.get(alias.name)
        if module is None:
            analysis.log.effect("call", f"imports `{alias.name}`", node, field="harmless")
            bind(analysis, (alias.asname or alias.name).partition(".")[0], ONE[OPAQUE], scope)
        elif alias.asname:
            bind(analysis, alias.asname, frozenset([Concrete(module, alias.name)]), scope)
        else:
            root = alias.name.partition(".")[0]
            bind(analysis, root, frozenset([Concrete(sys.modules[root], root)]), scope)


def _import_from(analysis: Analysis, node: ast.ImportFrom, scope: Scope) -> None:
    name = node.module or ""
    if node.level:
        package = analysis.function.__globals__.get("__package__") or ""
        parents = package.split(".")
        name = ".".join([*parents[: len(parents) - node.level + 1], *([name] if name else [])])
    module = sys.modules.get(name)
    for alias in node.names:
        found = ONE[OPAQUE]
        if module is None or alias.name == "*":
            analysis.log.effect("call", f"imports from `{name}`", node, field="harmless")
        else:
            found = analysis.attribute(Concrete(module, name), alias.name, node)
        bind(analysis, alias.asname or alias.name, found, scope)


def _function(analysis: Analysis, node: ast.FunctionDef, scope: Scope) -> None:
    value = make_function(analysis, node, scope)
    for decorator in reversed(node.decorator_list):
        decorating = analysis.evaluate(decorator, scope)
        value = analysis.call(decorating, CallArguments([value]), decorator)
    bind(analysis, node.name, value, scope)


def _match(analysis: Analysis, node: ast.Match, scope: Scope) -> bool:
    subject = analysis.evaluate(node.subject, scope)
    analysis.protocols(subject, node.subject)
    goes_on, complete = False, False
    for case in node.cases:
        inner = subject
        for _ in range(3):
            inner |= analysis.elements(inner, node.subject)
        for part in ast.walk(case.pattern):
            if isinstance(part, ast.MatchClass):
                analysis.evaluate(part.cls, scope)
                for atom in subject:
                    if isinstance(atom, (Concrete, Fresh)):
                        for name in part.kwd_attrs:
                            inner |= analysis.attribute(atom, name, node.subject)
            elif isinstance(part, ast.MatchValue):
                analysis.evaluate(part.value, scope)
        for part in ast.walk(case.pattern):
            taken: Any = getattr(part, "rest" if isinstance(part, ast.MatchMapping) else "name", None)
            if taken:
                bind(analysis, taken, inner | analysis.heap.fresh(part, list, inner), scope)
        if case.guard is not None:
            test(analysis, case.guard, scope)
        elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
            complete = True
        goes_on = analysis.run_block(case.body, scope) or goes_on
    return goes_on or not complete


STATEMENTS: dict[type[ast.stmt], Callable[[Analysis, Any, Scope], bool | None]] = {
    ast.Expr: _expression,
    ast.Pass: _nothing,
    ast.Global: _nothing,
    ast.Nonlocal: _nothing,
    ast.Break: _jump,
    ast.Continue: _jump,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated_assign,
    ast.AugAssign: _augmented_assign,
    ast.Delete: _delete,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.With: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.Match: _match,
}
