"""A statement of a step's own code that runs on the host, with the local variables of its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from undertow._src.base.modes import local, set_grad_enabled
from undertow._src.base.tree import map_leaves
from undertow._src.compile.callbacks.containers import is_used_up
from undertow._src.compile.callbacks.host_calls import Placed
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import PLAIN, Slots
from undertow._src.compile.splitting.anf import is_piece, names_given_away
from undertow._src.compile.splitting.statement_probes import StatementProbe
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.tensor.core import TensorCore
from undertow.amp.casting import autocast_as_it_was
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer

Variables = dict[str, Any]


class Environment:
    """Local variables that only statements on the host set, by the function that they are in."""

    def __init__(self) -> None:
        self.names: dict[int, set[str]] = {}
        self.values: dict[int, Variables] = {}

    def of(self, probe: StatementProbe) -> tuple[set[str], Variables]:
        key = id(probe.statements)
        return self.names.setdefault(key, set()), self.values.setdefault(key, {})

    def forget(self) -> None:
        for values in self.values.values():
            values.clear()


class AsItIs:
    """An object from outside among a statement's variables, which is given to it as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Statement:
    """A call of a statement, in the place of a hook."""

    def __init__(
        self, probe: StatementProbe, function: FunctionType, given: tuple[str, ...], environment: Environment
    ) -> None:
        self.probe, self.function, self.given = probe, function, given
        self.environment = environment
        self.is_first = not environment.names
        self.names, self.values = environment.of(probe)
        self.names |= probe.stored

    def __call__(self, variables: Variables) -> None:
        if self.is_first:
            self.environment.forget()
        result = self.run({name: value.value if type(value) is AsItIs else value for name, value in variables.items()})
        self.values.update({name: result[name] for name in self.probe.stored if name in result})

    def run(self, variables: Variables) -> Any:
        """Return what the statement gives: its variables, or what it returns."""
        known = variables | self.values
        try:
            return self.function(**{name: known[name] for name in self.given if name in known})
        except Exception as error:
            if self.probe.is_handled:
                raise CompileError(
                    f"undertow.compile: the statement `{self.probe.source}` ({self.probe.place}) raised {error!r} inside a "
                    "`try` that handles errors. It runs after the program, too late for that: put a `try` around it alone"
                ) from error
            raise


class Returned:
    """The statement that gives the step's result. It runs when all is left as the step leaves it."""

    def __init__(self, statement: Statement, variables: Variables) -> None:
        self.statement = statement
        given_away = names_given_away(statement.probe.statement)
        self.variables = {  # which are the program's results
            name: value if name in given_away else map_leaves(_without_graph, value)
            for name, value in variables.items()
        }
        self._recording, self._autocast = local.modes.grad_enabled, local.modes.autocast
        self.behind: list[Any] = []  # what runs on the host afterwards: `finally`, and the ends of `with`

    def of(self, variables: Variables) -> Any:
        """Return what the step returns, now that its variables are known."""
        try:
            with set_grad_enabled(self._recording), autocast_as_it_was(self._autocast):
                return self.statement.run(variables)
        finally:
            for later in self.behind:
                later.run()
            self.statement.environment.forget()


def _without_graph(value: Any) -> Any:
    return value.detach() if isinstance(value, TensorCore) and value._edge is not None else value


class PlacedStatement(Placed):
    """Where a statement runs, and why."""

    __slots__ = ("what",)

    def __init__(self, statement: Statement, runs: str, why: str) -> None:
        super().__init__(statement, runs, why)
        self.what = "piece" if is_piece(statement.probe.statement) else "statement"
        self.name, self.where = f"`{statement.probe.source}`", statement.probe.place

    def __str__(self) -> str:
        return f"the statement {self.name} ({self.where})"


def hidden(value: Any, before: Any) -> Iterator[Any]:
    """Tensors and numbers of the program in objects that the step made: their values of this turn could not be shown.
    Nor could what the step's iterators give, which the first call would use up.
    """
    seen: set[int] = set()
    waiting = [(value, 0)]  # and in how many objects it is
    while waiting:
        each, depth = waiting.pop()
        each = each.value if type(each) is AsItIs else each
        if isinstance(each, (TensorCore, Module, Optimizer, *PLAIN)) or id(each) in before:
            if depth and isinstance(each, (TensorCore, SymbolicScalar)):
                yield each
        elif is_used_up(each):
            yield each
        elif id(each) not in seen:
            seen.add(id(each))
            if isinstance(each, (tuple, list, dict)):
                waiting += [(part, depth) for part in (each.values() if isinstance(each, dict) else each)]
            elif isinstance(each, (set, frozenset, deque)):
                waiting += [(part, depth + 1) for part in each]
            elif depth < 3:
                waiting += [
                    (part, depth + 1) for part in (*getattr(each, "__dict__", {}).values(), *Slots(each).values())
                ]
