"""Probes in the code of a step or a hook: each asks whether its statement runs now."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any, Protocol

from undertow._src.base import tracer
from undertow._src.compile.splitting.anf import written
from undertow._src.compile.splitting.recompiled_functions import alone
from undertow._src.compile.splitting.statements import Statements
from undertow._src.compile.tracing.current_trace import running_trace

_UNKNOWN = object()


def _meant(expression: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a name, attribute or entry, found without running the user's code."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id, _UNKNOWN)
    if isinstance(expression, ast.Attribute):
        return getattr(_meant(expression.value, names), "__dict__", {}).get(expression.attr, _UNKNOWN)
    if isinstance(expression, ast.Subscript):
        holder, place = _meant(expression.value, names), expression.slice
        key: Any = place.value if isinstance(place, ast.Constant) else _meant(place, names)
        if type(holder) is dict and isinstance(key, (str, int)):
            return holder.get(key, _UNKNOWN)
        if type(holder) is list and type(key) is int and -len(holder) <= key < len(holder):
            return holder[key]
    return _UNKNOWN


class Replaying(Protocol):
    """Knows which statements have run, while a step runs eagerly; see `replay`."""

    def meets(self, probe: StatementProbe) -> bool: ...


class ProbedCode:
    """A `with` block in which functions have their code with probes."""

    def __init__(self, code: list[tuple[FunctionType, CodeType]]) -> None:
        self._code = code
        self._before: list[tuple[FunctionType, CodeType]] = []

    def __enter__(self) -> None:
        self._before = [(function, function.__code__) for function, _ in self._code]
        for function, code in self._code:
            function.__code__ = code

    def __exit__(self, *exc: Any) -> None:
        for function, code in self._before:
            function.__code__ = code


class StatementProbe:
    """The probe of a statement that is moved, or that the trace must not reach."""

    replay: Replaying | None = None

    def __init__(
        self, statements: Statements, statement: ast.stmt, why: str, refusal: str = "", warning: str = "",
        changes_unknown: bool = False,
    ) -> None:  # fmt: skip
        self.statements, self.statement = statements, statement
        self.why, self.refusal, self.warning = why, refusal, warning
        self.changes_unknown = changes_unknown  # whether it is refused because what it changes is unknown
        self.stored = statements.stored(statement)
        self.returns = isinstance(statement, ast.Return)
        self.is_handled = statements.is_handled(statement)
        # The saved values of a custom Function are freed when the program has run.
        self.opens_saved = any(getattr(part, "attr", "") == "saved_tensors" for part in ast.walk(statement))
        code = statements.function.__code__
        names = statements.used(statement) - set(code.co_freevars)
        if "__class__" in code.co_freevars:  # `super()` uses the first argument without naming it
            names |= {*code.co_varnames[: min(1, code.co_argcount)]}
        self.used = sorted(names)
        self._alone: dict[tuple[str, ...], FunctionType] = {}

    def __call__(self) -> bool:
        """Return whether the statement is to run now."""
        if tracer.current is None or not tracer.current.is_here():
            asked = StatementProbe.replay is not None and not (self.refusal or self.warning)
            return StatementProbe.replay.meets(self) if asked else True  # type: ignore[union-attr]
        return running_trace().placer.meets(self, sys._getframe(1).f_locals)

    def changed(self, variables: Mapping[str, Any]) -> list[Any] | None:
        """Return the objects that the statement would change now; None if they are unknown."""
        statement = self.statement
        if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.Delete)):
            return None
        names = {**self.statements.function.__globals__, **variables}
        found: list[Any] = []
        for target in [statement.target] if isinstance(statement, ast.AugAssign) else statement.targets:
            if isinstance(target, (ast.Subscript, ast.Attribute)):
                found.append(_meant(target.value, names))
            elif not isinstance(target, ast.Name):
                return None
            if isinstance(statement, ast.AugAssign):
                found.append(_meant(target, names))
        return None if any(each is _UNKNOWN for each in found) else found

    def alone(self, given: tuple[str, ...]) -> FunctionType:
        """Return a function that runs the statement, given these variables."""
        if given not in self._alone:
            self._alone[given] = alone(self.statements.function, self.statements.node, self.statement, given)
        return self._alone[given]

    @property
    def place(self) -> str:
        return f"{self.statements.function.__code__.co_filename}:{self.statement.lineno}"

    @property
    def source(self) -> str:
        line = written(self.statement).partition("\n")[0]
        return line if len(line) < 60 else line[:57] + "..."
