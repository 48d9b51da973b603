"""Marks at statements of a step's code, or of a hook's: the question whether a statement runs now."""

from __future__ import annotations

import ast
import sys
import threading
from types import FunctionType

from undertow.xla.pieces import written
from undertow.xla.recompiled import alone
from undertow.xla.statements import Statements
from undertow.xp.device_memory import Watch


class Mark:
    """A statement that the trace has to ask about: one that is moved, or one that must not be reached."""

    def __init__(self, statements: Statements, statement: ast.stmt, why: str, refusal: str = "", warning: str = "") -> None:
        self.statements, self.statement = statements, statement
        self.why, self.refusal, self.warning = why, refusal, warning
        self.stored = statements.stored(statement)
        self.returns = isinstance(statement, ast.Return)
        self.is_handled = statements.is_handled(statement)
        # What a custom Function saved is gone when the program has run.
        self.opens_saved = any(getattr(part, "attr", "") == "saved_tensors" for part in ast.walk(statement))
        free = set(statements.function.__code__.co_freevars)
        self.used = sorted(name for name in statements.used(statement) if name not in free)
        self._alone: dict[tuple[str, ...], FunctionType] = {}

    def __call__(self) -> bool:
        """Whether the statement is to run now."""
        trace = Watch.trace
        if trace is None or trace.thread != threading.get_ident():
            return True
        return trace.firing.meets(self, sys._getframe(1).f_locals)

    def alone(self, given: tuple[str, ...]) -> FunctionType:
        """A function that runs the statement, given these variables."""
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
