"""A statement of a step's own code that runs on the host, with the local variables as they were in the trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from undertow._src.base.modes import local, set_grad_enabled
from undertow._src.compile.callbacks.containers import is_used_up
from undertow._src.compile.callbacks.host_calls import Placed
from undertow._src.compile.effects.objects import held_by, keys_in
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import PLAIN, Slots, contents_of
from undertow._src.compile.splitting.anf import is_piece, names_given_away
from undertow._src.compile.splitting.statement_probes import StatementProbe
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.tensor.core import TensorCore
from undertow.amp.casting import autocast_as_it_was
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer

Variables = dict[str, Any]
_FUNCTIONS = (FunctionType, MethodType, BuiltinMethodType, partial)


class Environment:
    """Local variables that only statements on the host set, by the call of a function that they belong to."""

    def __init__(self) -> None:
        self.names: dict[object, set[str]] = {}
        self.values: dict[object, Variables] = {}

    def of(self, call: object) -> tuple[set[str], Variables]:
        """Return the names and the values of a call, by the object that identifies it; see `CALL`."""
        return self.names.setdefault(call, set()), self.values.setdefault(call, {})

    def is_empty(self) -> bool:
        """Return whether no statement on the host sets a variable so far."""
        return not any(self.names.values())

    def forget(self) -> None:
        for values in self.values.values():
            values.clear()


class AsItIs:
    """An object from outside among a statement's variables, passed to it unchanged."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Statement:
    """The run of a statement, called like a hook."""

    def __init__(
        self, probe: StatementProbe, function: FunctionType, given: tuple[str, ...], environment: Environment,
        call: object,
    ) -> None:  # fmt: skip
        self.probe, self.function, self.given = probe, function, given
        self.environment = environment
        self.is_first = environment.is_empty()  # then all values are those of an earlier call of the program
        self.names, self.values = environment.of(call)
        self.names |= probe.stored

    def __call__(self, variables: Variables) -> None:
        if self.is_first:
            self.environment.forget()
        result = self.run({name: value.value if type(value) is AsItIs else value for name, value in variables.items()})
        self.values.update({name: result[name] for name in self.probe.stored if name in result})

    def run(self, variables: Variables) -> Any:
        """Run the statement; return its variables, or its return value."""
        known = variables | self.values
        return self.function(**{name: known[name] for name in self.given if name in known})

    def refuse_handled(self, error: BaseException) -> None:
        """Raise a CompileError for an error that the step would have handled, if it is too late for that."""
        if self.probe.is_handled:
            raise CompileError(
                f"undertow.compile: the statement `{self.probe.source}` ({self.probe.place}) raised {error!r} inside a "
                "`try` with handlers. It runs after the program, too late for them: put a `try` around it alone."
            ) from error


class Returned:
    """The statement that returns the step's result. It runs at the very end."""

    def __init__(self, statement: Statement, variables: Variables) -> None:
        self.statement = statement
        given_away = names_given_away(statement.probe.statement)
        self.variables = {  # which are the program's results
            name: value if name in given_away else _without_graph(value) for name, value in variables.items()
        }
        self._recording, self._autocast = local.modes.grad_enabled, local.modes.autocast
        self.behind: list[Any] = []  # what runs on the host after it: `finally`, and the ends of `with`

    def of(self, variables: Variables) -> Any:
        """Return the step's result, computed from the values of its variables."""
        try:
            with set_grad_enabled(self._recording), autocast_as_it_was(self._autocast):
                return self.statement.run(variables)
        except Exception as error:
            self.statement.refuse_handled(error)
            raise
        finally:
            for later in self.behind:
                later.run()
            self.statement.environment.forget()


def _without_graph(value: Any) -> Any:
    """Return a tensor, or a tuple of some, without graphs. Containers stay themselves: statements on the host fill them."""
    if type(value) is tuple:
        return tuple(map(_without_graph, value))
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


def _is_traced(tensor: TensorCore) -> bool:
    """Whether a tensor is part of the program. A tensor that an earlier call has left somewhere may not be."""
    memory = running_trace().memory
    return not tensor._is_strided or memory.is_made(tensor) or memory.is_from_outside(tensor)


def _held_by_function(function: Any) -> Iterator[Any]:
    if isinstance(function, partial):
        yield from (function.func, *function.args, *function.keywords.values())
    elif isinstance(function, FunctionType):
        yield from map(contents_of, function.__closure__ or ())
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    else:
        yield function.__self__


def hidden(value: dict[str, Any], before: Any) -> Iterator[Any]:
    """Yield tensors and numbers of the program in objects that the step made, which can't be shown to the host.
    Also the step's iterators, which the first call would use up, and what functions in containers hold.
    """
    seen: set[int] = set()
    waiting: list[tuple[Any, int]] = [(value, 0)]  # and the number of objects that contain it
    variables = {id(each.value) for each in value.values() if type(each) is AsItIs}
    while waiting:
        each, depth = waiting.pop()
        each = each.value if type(each) is AsItIs else each
        if isinstance(each, (TensorCore, Module, Optimizer, *PLAIN)) or id(each) in before:
            if depth and (isinstance(each, SymbolicScalar) or (isinstance(each, TensorCore) and _is_traced(each))):
                yield each
        elif is_used_up(each):
            yield each
        elif id(each) not in seen:
            seen.add(id(each))
            if isinstance(each, _FUNCTIONS):
                waiting += [(part, depth + 1) for part in _held_by_function(each) if id(each) not in variables]
            elif isinstance(each, (tuple, list, dict)):
                waiting += [(part, depth) for part in held_by(each)]
                waiting += [(key, depth + 1) for key in keys_in(each) if isinstance(each, dict)]
            elif isinstance(each, (set, frozenset, deque)):
                waiting += [(part, depth + 1) for part in held_by(each)]
            elif depth < 3:
                waiting += [
                    (part, depth + 1) for part in (*getattr(each, "__dict__", {}).values(), *Slots(each).values())
                ]
