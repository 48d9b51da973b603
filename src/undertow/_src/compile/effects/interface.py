"""The protocol through which models use the analyzer."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol, TypeVar

from undertow._src.compile.effects.call_graph import Position
from undertow._src.compile.effects.effect_log import EffectLog
from undertow._src.compile.effects.heap import Heap
from undertow._src.compile.effects.special_methods import EVERYTHING
from undertow._src.compile.effects.values import EMPTY, Atom, CallArguments, Closure, Scope, Value

T = TypeVar("T")


class Analysis(Protocol):
    """An analyzer, as models and syntax see it.

    A model knows one family of operations: reading attributes, calling builtins, methods of C types. It records what an
    operation does in the log, reads and writes the heap, and leaves every other family to the analyzer.
    """

    at: Position
    log: EffectLog
    heap: Heap

    @property
    def function(self) -> Any:
        """The function whose body is being analyzed."""

    @property
    def decides(self) -> bool:
        """Whether tests with a certain outcome are decided in the current function."""

    # --- syntax

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        """Return the possible values of an expression."""

    def run_block(self, statements: list[ast.stmt], scope: Scope) -> bool:
        """Analyze statements. Return whether control may reach their end."""

    def run_body(self, node: Any, scope: Scope) -> None:
        """Analyze the body of a function once."""

    def unbound(self, name: str, scope: Scope | None) -> None:
        """Record a name that has no value yet."""

    def once(self, key: Any, make: Callable[[], T], *keep: Any) -> T:
        """Return the result of `make` in its first call with this key; `keep` are objects whose ids it contains."""

    # --- operations on values

    def call(self, called: Value, arguments: CallArguments, node: Any) -> Value:
        """Return the result of a call."""

    def call_atom(self, atom: Atom, arguments: CallArguments, node: Any) -> Value:
        """Return the result of calling one atom of a value."""

    def call_function(self, function: FunctionType, arguments: CallArguments, node: Any) -> Value:
        """Return the result of a function whose body is analyzed."""

    def call_closure(self, closure: Closure, arguments: CallArguments, node: Any) -> Value:
        """Return the result of a function that the code itself defines."""

    def attribute(self, atom: Atom, name: str, node: Any) -> Value:
        """Return the possible values of an attribute."""

    def set_attribute(self, atom: Atom, name: str, value: Value, node: Any, updating: bool = False) -> None:
        """Set an attribute."""

    def elements(self, value: Value, node: Any) -> Value:
        """Return the result of iterating over a value."""

    def item(self, atom: Atom, constant: Any, key: Value, node: Any) -> Value:
        """Return the result of subscripting; `constant` is ... where the key is not known."""

    def set_item(self, atom: Atom, key: Value, value: Value, node: Any, updating: bool = False) -> None:
        """Set an item."""

    def protocols(self, value: Value, node: Any, others: Value = EMPTY, names: tuple[str, ...] = EVERYTHING) -> Value:
        """Call the special methods that Python calls by itself, of objects of users' classes."""

    def enter(self, atom: Atom, node: Any) -> tuple[Value, bool]:
        """Return the value that `with` binds, and whether exceptions certainly leave the block."""


# The model of one function: it is given the analysis, the function, its arguments and the node of the call. None: it has
# nothing to say, and the function is called as any other one.
FunctionModel = Callable[[Analysis, Any, CallArguments, Any], Value | None]
