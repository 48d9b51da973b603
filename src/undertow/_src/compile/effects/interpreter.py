"""Statements and expressions: what each value may be, and what happens besides.

Every variable is given all values that it ever gets, regardless of order, and the function is gone through until nothing
new turns up. So loops, exceptions, nested functions and recursion need no care of their own, and what is found in an
early round stays true.
"""

from __future__ import annotations

import ast
import sys
from typing import Any

from undertow._src.compile.effects.expressions import Expressions
from undertow._src.compile.effects.graph import Frame, Notes
from undertow._src.compile.effects.protocols import TEXT
from undertow._src.compile.effects.values import (
    EMPTY,
    NONE,
    ONE,
    OPAQUE,
    PLAIN,
    Arguments,
    Fresh,
    Known,
    Scope,
    Value,
    bound_names,
)


class Interpreter(Expressions):
    """Goes through a function's syntax tree with sets of possible values in the place of values."""

    def outcome(self, function: Known, arguments: Arguments) -> Value:
        """Return what comes back from a call, when all has been gone through as often as it takes."""
        self.call_atom(function, arguments, None)
        self.settle()
        while self._give_up_names():
            self.settle()
        return self.call_atom(function, arguments, None)

    def forget(self, node: Any) -> None:
        """Forgets what a definition does, whose statements are others now. What its values may be stays true."""
        frames = [frame for frame in self.frames.values() if frame.node is node]
        for frame in frames:
            frame.notes.clear()
            frame.scope.names, frame.scope.globals = bound_names(node)
        self.grown(frames)

    def _give_up_names(self) -> bool:
        """Whether there are names that never got a value: those may be anything from now on."""
        unbound, self.unbound = self.unbound, {}
        for name, scope, frame, notes in unbound.values():
            if (scope is None or not scope.values.get(name)) and self._came_to(frame, notes):
                self.frame, self.here = frame, notes
                where = notes.path[-1] if notes.path else None
                self.effect("call", f"uses `{name}`, of which nothing is known", where, field="unknown")
                self.frame, self.here = None, self.top
                if scope is not None:
                    self.set_variable(scope, name, ONE[OPAQUE])
        return bool(self.waiting)

    def _came_to(self, frame: Frame | None, notes: Notes) -> bool:
        """Whether a statement runs: in traces, if it is known which."""
        if frame is None or not frame.is_traced or not notes.path:
            return True
        return not self._ran_not(frame, notes.path[-1])

    def body(self, node: Any, scope: Scope) -> None:
        """Goes through a function once, its parameters being bound."""
        if isinstance(node, ast.Lambda):
            self.give_back(self.value(node.body, scope))
        elif isinstance(node, ast.AsyncFunctionDef):
            self.effect("call", "is a coroutine", node, field="unknown")
        elif self.block(node.body, scope):
            self.give_back(ONE[NONE])

    def block(self, statements: list[ast.stmt], scope: Scope) -> bool:
        """Whether control may reach the end of the statements."""
        goes_on = True
        for statement in statements:
            if self.is_dead(statement):
                goes_on = False
                continue
            method = getattr(self, "do_" + type(statement).__name__, None)
            if method is None:
                self.effect(
                    "call", f"uses {type(statement).__name__}, which is not analysed", statement, field="unknown"
                )
                continue
            self.spend(statement)
            assert self.frame is not None
            path = self.frame.path
            path.append(statement)
            here, self.here = self.here, self.frame.at(tuple(path))
            if method(statement, scope) is False:
                goes_on = False
            self.here = here
            path.pop()
        return goes_on

    def do_Expr(self, node: ast.Expr, scope: Scope) -> None:
        self.value(node.value, scope)

    def do_Pass(self, node: ast.stmt, scope: Scope) -> None:
        pass

    do_Global = do_Nonlocal = do_Pass

    def do_Break(self, node: ast.stmt, scope: Scope) -> bool:
        return False

    do_Continue = do_Break

    def do_Return(self, node: ast.Return, scope: Scope) -> bool:
        self.give_back(ONE[NONE] if node.value is None else self.value(node.value, scope))
        return False

    def do_Raise(self, node: ast.Raise, scope: Scope) -> bool:
        for part in (node.exc, node.cause):
            if part is not None:
                raised = self.value(part, scope)
                for atom in raised:
                    if isinstance(atom, Known) and isinstance(atom.value, type):
                        self.call_atom(atom, Arguments([]), part)
        return False

    def do_Assert(self, node: ast.Assert, scope: Scope) -> None:
        self.test(node.test, scope)
        if node.msg is not None:
            self.protocols(self.value(node.msg, scope), node, names=TEXT)

    def do_Assign(self, node: ast.Assign, scope: Scope) -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def do_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def do_AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:
        target = node.target
        before = self.value(target, scope)
        right = self.value(node.value, scope)
        for atom in before - {OPAQUE} if PLAIN in before else before:  # what began as a number is none from outside
            self.write_into(atom, right, node, ast.unparse(target))
        result = self.arithmetic([before, right], node) | (before - {PLAIN, NONE})
        self.assign(target, result, scope, updating=True)

    def do_Delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                for atom in self.value(target.value, scope):
                    self.store_attribute(atom, target.attr, ONE[NONE], target, updating=True)
            elif isinstance(target, ast.Subscript):
                self.value(target.slice, scope)
                for atom in self.value(target.value, scope):
                    self.store_item(atom, EMPTY, EMPTY, target, updating=True)
            elif isinstance(target, ast.Name):
                if self.owner_of(target.id, scope) is None:
                    self.store_outside(target.id, ONE[PLAIN], target, updating=True)
            else:
                self.effect("call", "deletes several things", target)

    def do_If(self, node: ast.If, scope: Scope) -> bool:
        true, false = self.test(node.test, scope)
        first = true and self.block(node.body, scope)
        second = false and self.block(node.orelse, scope)
        return first or second

    def do_For(self, node: ast.For, scope: Scope) -> None:
        self.assign(node.target, self.elements(self.value(node.iter, scope), node.iter), scope)
        self.block(node.body, scope)
        self.block(node.orelse, scope)

    def do_While(self, node: ast.While, scope: Scope) -> bool:
        true, _ = self.test(node.test, scope)
        if true:
            self.block(node.body, scope)
        self.block(node.orelse, scope)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return not endless or any(isinstance(part, ast.Break) for part in ast.walk(node))

    def do_With(self, node: ast.With, scope: Scope) -> bool:
        lets_errors_pass = True
        for item in node.items:
            manager = self.value(item.context_expr, scope, entering=True)
            entered = EMPTY
            for atom in manager:
                result, passes = self.enter(atom, item.context_expr)
                entered |= result
                lets_errors_pass = lets_errors_pass and passes
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered, scope)
        return self.block(node.body, scope) or not lets_errors_pass

    def do_Try(self, node: ast.Try, scope: Scope) -> bool:
        goes_on = self.block(node.body, scope)
        if goes_on:
            goes_on = self.block(node.orelse, scope)
        else:
            self.block(node.orelse, scope)
        for handler in node.handlers:
            if handler.type is not None:
                self.value(handler.type, scope)
            if handler.name is not None:
                self.bind(handler.name, self.fresh(handler, BaseException, ONE[PLAIN]), scope)
            goes_on = self.block(handler.body, scope) or goes_on
        ends = self.block(node.finalbody, scope)
        return goes_on and ends

    do_TryStar = do_Try

    def do_Import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            module = sys.modules.get(alias.name)
            if module is None:
                self.effect("call", f"imports `{alias.name}`", node, field="harmless")
                self.bind((alias.asname or alias.name).partition(".")[0], ONE[OPAQUE], scope)
            elif alias.asname:
                self.bind(alias.asname, frozenset([Known(module, alias.name)]), scope)
            else:
                root = alias.name.partition(".")[0]
                self.bind(root, frozenset([Known(sys.modules[root], root)]), scope)

    def do_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        name = node.module or ""
        if node.level:
            package = self.function.__globals__.get("__package__") or ""
            parents = package.split(".")
            name = ".".join([*parents[: len(parents) - node.level + 1], *([name] if name else [])])
        module = sys.modules.get(name)
        for alias in node.names:
            found = ONE[OPAQUE]
            if module is None or alias.name == "*":
                self.effect("call", f"imports from `{name}`", node, field="harmless")
            else:
                found = self.attribute(Known(module, name), alias.name, node)
            self.bind(alias.asname or alias.name, found, scope)

    def do_FunctionDef(self, node: ast.FunctionDef, scope: Scope) -> None:
        value = self.make_function(node, scope)
        for decorator in reversed(node.decorator_list):
            decorating = self.value(decorator, scope)
            value = self.call(decorating, Arguments([value]), decorator)
        self.bind(node.name, value, scope)

    def do_Match(self, node: ast.Match, scope: Scope) -> bool:
        subject = self.value(node.subject, scope)
        self.protocols(subject, node.subject)
        goes_on, complete = False, False
        for case in node.cases:
            inner = subject
            for _ in range(3):
                inner |= self.elements(inner, node.subject)
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchClass):
                    self.value(part.cls, scope)
                    for atom in subject:
                        if isinstance(atom, (Known, Fresh)):
                            for name in part.kwd_attrs:
                                inner |= self.attribute(atom, name, node.subject)
                elif isinstance(part, ast.MatchValue):
                    self.value(part.value, scope)
            for part in ast.walk(case.pattern):
                taken: Any = getattr(part, "rest" if isinstance(part, ast.MatchMapping) else "name", None)
                if taken:
                    self.bind(taken, inner | self.fresh(part, list, inner), scope)
            if case.guard is not None:
                self.test(case.guard, scope)
            elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                complete = True
            goes_on = self.block(case.body, scope) or goes_on
        return goes_on or not complete
