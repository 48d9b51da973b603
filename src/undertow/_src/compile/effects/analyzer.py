"""The analyzer: an abstract interpreter of Python functions.

Each value is a set of things that it may be. Every variable is given all values that it ever gets, regardless of order,
and a function is analyzed again until nothing new is found. So loops, exceptions, nested functions and recursion need
no special treatment, and what is found in an early round stays true.

`syntax/` has the meaning of syntax, `models/` that of operations on values; both are found through tables.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from inspect import CO_COROUTINE
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from undertow._src.compile.effects.call_graph import Frame, Notes, Position, Worklist
from undertow._src.compile.effects.coverage import Coverage
from undertow._src.compile.effects.effect_log import EffectLog
from undertow._src.compile.effects.function_calls import FunctionCalls
from undertow._src.compile.effects.heap import Heap
from undertow._src.compile.effects.models import MODELS, Models
from undertow._src.compile.effects.special_methods import EVERYTHING
from undertow._src.compile.effects.syntax.expressions import EXPRESSIONS
from undertow._src.compile.effects.syntax.statements import STATEMENTS
from undertow._src.compile.effects.values import (
    EMPTY,
    NONE,
    ONE,
    OPAQUE,
    Atom,
    CallArguments,
    Closure,
    Concrete,
    Scope,
    Value,
    joined,
)

MOST_STEPS = 300_000
T = TypeVar("T")


class TooLarge(Exception):
    """There is more code than is worth analyzing."""


class _Unbound(NamedTuple):
    """A name that was read before it had a value: its scope, if the code binds it, and the statement that read it."""

    name: str
    scope: Scope | None
    frame: Frame | None
    notes: Notes


class Analyzer:
    """Analyzes one call of a function, with all that it calls.

    decides: whether code of packages after tests that fail is left out.
    coverage: what ran in traces, if the rest of packages is left out.
    values: what expressions may be, by their ids. Where that is wanted, effects are recorded by expression, too.
    """

    def __init__(
        self, decides: bool = False, coverage: Coverage | None = None, most_steps: int | None = None,
        models: Models = MODELS, values: dict[int, Value] | None = None,
    ) -> None:  # fmt: skip
        self.at = Position()
        self.log = EffectLog(self.at)
        worklist = Worklist()
        self.heap = Heap(self.at, worklist)
        self.top = self.at.notes  # the effects of calling the function itself
        self._coverage = coverage
        self._models = models
        self._most_steps = min(MOST_STEPS, most_steps or MOST_STEPS)
        self._functions = FunctionCalls(self, worklist, decides, coverage)
        self._memo: dict[Any, tuple[Any, tuple[Any, ...]]] = {}
        self._unbound: dict[Any, _Unbound] = {}
        self._values = values

    # --- a whole analysis

    def analyze(self, function: Concrete, arguments: CallArguments) -> Value:
        """Return the result of a call, after all code has been analyzed until nothing changes."""
        self.call_atom(function, arguments, None)
        self._functions.run_to_fixed_point()
        while self._give_up_names():
            self._functions.run_to_fixed_point()
        return self.call_atom(function, arguments, None)

    def give_up(self, what: str) -> None:
        """Record at the outermost call that the code was not analyzed completely."""
        self.at.frame, self.at.notes = None, self.top
        self.log.unfollowed_call()
        self.log.unknown(what, None)

    def forget(self, node: Any) -> None:
        """Forget the effects of a definition whose statements were replaced."""
        self._functions.forget(node)

    def _give_up_names(self) -> bool:
        """Treat names that never got a value as unknown. Return whether there are any."""
        unbound, self._unbound = self._unbound, {}
        gave_up = False
        for name, scope, frame, notes in unbound.values():
            if scope is not None and scope.values.get(name):
                continue
            if frame is not None and frame.is_traced and not self._functions.ran(frame, notes.path):
                continue
            self.at.frame, self.at.notes = frame, notes
            where = notes.path[-1] if notes.path else None
            self.log.unknown(f"uses `{name}`, of which nothing is known", where)
            self.at.frame, self.at.notes = None, self.top
            if scope is not None:
                self.heap.set_variable(scope, name, ONE[OPAQUE])
                gave_up = True
        return gave_up

    def unbound(self, name: str, scope: Scope | None) -> None:
        """Record a name that has no value yet."""
        self._unbound[id(scope), name, self.at.notes] = _Unbound(name, scope, self.at.frame, self.at.notes)

    def once(self, key: Any, make: Callable[[], T], *keep: Any) -> T:
        """Return the result of `make` in its first call with this key, however often code is analyzed."""
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = make(), keep
        return found[0]

    # --- syntax

    @property
    def function(self) -> Any:
        assert self.at.frame is not None
        return self.at.frame.function

    @property
    def decides(self) -> bool:
        return self.at.frame is not None and self.at.frame.decides

    def run_body(self, node: Any, scope: Scope) -> None:
        """Analyze the body of a function once, with its parameters bound."""
        if isinstance(node, ast.Lambda):
            self.heap.set_result(self.evaluate(node.body, scope))
        elif isinstance(node, ast.AsyncFunctionDef):
            if self.function.__code__.co_flags & CO_COROUTINE:  # others make a generator, which runs in a coroutine
                self.log.effect("call", "runs a coroutine", node, field="output")  # which is not read
            self.heap.set_result(ONE[OPAQUE])
        elif self.run_block(node.body, scope):
            self.heap.set_result(ONE[NONE])

    def run_block(self, statements: list[ast.stmt], scope: Scope) -> bool:
        """Analyze statements. Return whether control may reach their end."""
        at, reaches_end = self.at, True
        for statement in statements:
            if self._is_dead(statement):
                reaches_end = False
                continue
            run = STATEMENTS.get(type(statement))
            if run is None:
                self.log.unknown(f"uses {type(statement).__name__}, which is not analysed", statement)
                continue
            self._step(statement)
            assert at.frame is not None
            path = at.frame.path
            path.append(statement)
            before, at.notes = at.notes, at.frame.at(tuple(path))
            if run(self, statement, scope) is False:
                reaches_end = False
            at.notes = before
            path.pop()
        return reaches_end

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        """Return the possible values of an expression."""
        self._step(node)
        if self._is_dead(node):
            return EMPTY
        evaluate = EXPRESSIONS.get(type(node))
        if evaluate is None:
            return self.log.unknown(f"uses {type(node).__name__}, which is not analysed", node)
        if self._values is None or self.at.frame is None:
            return evaluate(self, node, scope)
        path, before = self.at.frame.path, self.at.notes
        path.append(node)
        self.at.notes = self.at.frame.at(tuple(path))
        value = evaluate(self, node, scope)
        path.pop()
        self.at.notes = before
        self._values[id(node)] = joined(self._values.get(id(node), EMPTY), value)
        return value

    def _step(self, node: ast.AST) -> None:
        self.at.node = node
        self.at.steps += 1
        if self.at.steps > self._most_steps:
            raise TooLarge

    def _is_dead(self, node: ast.AST) -> bool:
        """Return whether a part of a package's code did not run in any trace."""
        frame = self.at.frame
        if frame is None or not frame.is_cut or self._coverage is None:
            return False
        return self._coverage.is_dead(frame.function.__code__, node)

    # --- operations on values

    def call(self, called: Value, arguments: CallArguments, node: Any) -> Value:
        """Return the result of a call."""
        result = EMPTY
        for atom in called:
            result |= self._models.call(self, atom, arguments, node)
        return result

    def call_atom(self, atom: Atom, arguments: CallArguments, node: Any) -> Value:
        """Return the result of calling one atom of a value."""
        return self._models.call(self, atom, arguments, node)

    def call_function(self, function: FunctionType, arguments: CallArguments, node: Any) -> Value:
        """Return the result of a function whose body is analyzed."""
        return self._functions.call(function, arguments, node)

    def call_closure(self, closure: Closure, arguments: CallArguments, node: Any) -> Value:
        """Return the result of a function that the code itself defines."""
        return self._functions.call_closure(closure, arguments, node)

    def attribute(self, atom: Atom, name: str, node: Any) -> Value:
        """Return the possible values of an attribute."""
        return self._models.attribute(self, atom, name, node)

    def set_attribute(self, atom: Atom, name: str, value: Value, node: Any, updating: bool = False) -> None:
        """Set an attribute."""
        self._models.set_attribute(self, atom, name, value, node, updating)

    def elements(self, value: Value, node: Any) -> Value:
        """Return the result of iterating over a value."""
        found = EMPTY
        for atom in value:
            found |= self._models.iterate(self, atom, node)
        return found

    def item(self, atom: Atom, constant: Any, key: Value, node: Any) -> Value:
        """Return the result of subscripting; `constant` is ... where the key is not known."""
        return self._models.item(self, atom, constant, key, node)

    def set_item(self, atom: Atom, key: Value, value: Value, node: Any, updating: bool = False) -> None:
        """Set an item."""
        self._models.set_item(self, atom, key, value, node, updating)

    def protocols(self, value: Value, node: Any, others: Value = EMPTY, names: tuple[str, ...] = EVERYTHING) -> Value:
        """Call the special methods that Python calls by itself, of objects of users' classes."""
        return self._models.protocols(self, value, node, others, names)

    def enter(self, atom: Atom, node: Any) -> tuple[Value, bool]:
        """Return the value that `with` binds, and whether exceptions certainly leave the block."""
        return self._models.enter(self, atom, node)
