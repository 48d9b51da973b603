"""Where each moved statement of a compiled step runs: after the program, inside it or before it."""

from __future__ import annotations

import ast
from collections.abc import Container
from enum import Enum
from typing import Any

from undertow._src.base.modes import local
from undertow._src.base.tree import leaves
from undertow._src.compile.callbacks.containers import is_used_up
from undertow._src.compile.callbacks.hook_facts import exact_kind_of, kind_of_variable
from undertow._src.compile.callbacks.hook_view import tensors_of
from undertow._src.compile.callbacks.host_call_order import HostSchedule
from undertow._src.compile.callbacks.host_calls import DeferredCallback, OrderedCallback, Placed
from undertow._src.compile.callbacks.registrations import Registrations
from undertow._src.compile.effects import Effects, Kind, analyse
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import PLAIN
from undertow._src.compile.plan import Plan, Retrace
from undertow._src.compile.splitting.anf import shows_value
from undertow._src.compile.splitting.certain_statements import cannot_raise
from undertow._src.compile.splitting.host_statements import (
    AsItIs,
    Environment,
    PlacedStatement,
    Returned,
    Statement,
    hidden,
)
from undertow._src.compile.splitting.recompiled_functions import CALL, RETURNED
from undertow._src.compile.splitting.statement_probes import StatementProbe
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.symbolic_scalars import ScalarBecameConstant, SymbolicScalar
from undertow._src.overrides.torch_function import overrides
from undertow._src.tensor.core import TensorCore
from undertow.optim.lr_scheduler import ReduceLROnPlateau


class StatementPlacer(HostSchedule):
    """Decide when and where the probed statements of a traced step run."""

    def __init__(self, plan: Plan, registrations: Registrations, known: Container[int] | None = None) -> None:
        super().__init__(plan, registrations, known)
        self.environment = Environment()
        self.given_to_hook: set[int] = set()  # ids of the arguments of a split hook that may also run unsplit
        self.traced_hooks = 0  # hooks that run now, in the trace

    def meets(self, probe: StatementProbe, variables: dict[str, Any]) -> bool:
        """Return whether a probed statement is to be traced now; else record it, to be run on the host."""
        splitter = self.plan.splitter
        assert splitter is not None
        if probe.refusal:
            changed = probe.changed(variables) if probe.changes_unknown else None
            if changed is not None and all(map(self._may_change, changed)):
                return True
            raise CompileError(probe.refusal)
        if probe.warning:
            splitter.warn(probe)
            return True
        number = self.fired = self.fired + 1
        call = variables[CALL]
        known = {name: self._variable(variables[name]) for name in probe.used if name in variables}
        given = tuple(sorted({*known, *(self.environment.of(call)[0] & set(probe.used))}))
        function = probe.alone(given)
        kinds: dict[str, Kind] = {name: kind_of_variable(known[name]) if name in known else "plain" for name in given}
        effects = analyse(function, (), kinds)  # by name: the function may have its variables in another order
        self._find_state(effects)
        by_name = {id(tensor) for read in effects.holds for tensor in tensors_of(read.get())}  # which are shown
        inside_objects = [each for each in hidden(known, self.scope.known or ()) if id(each) not in by_name]
        if probe.returns and not any(map(is_used_up, inside_objects)):
            return self._returns(Statement(probe, function, given, self.environment, call), effects, variables)
        feeding = [effect for effect in splitter.rest.effects if effect.feeds(effects.places)]
        if any(isinstance(each, SymbolicScalar) and not each.is_asked for each in inside_objects):
            raise ScalarBecameConstant
        hosted = running_trace().schedules.hosted
        shown = [id(its.target) in hosted or self._count(its) or self._remembers(its) for its in feeding]
        if not all(shown) or inside_objects or probe.opens_saved:
            splitter.keep(probe)
            raise Retrace
        for each in known.values():
            if _notes_calls(each):
                raise CompileError(
                    f"undertow.compile: `{ast.unparse(probe.statement)}` runs on the host, because {probe.why}, and uses a "
                    f"{type(each).__name__}, whose `__torch_function__` does more than compute, which would be missed. "
                    "Use a plain tensor instead (`.as_subclass(torch.Tensor)`)."
                )
        if any(isinstance(each, TensorCore) and not _is_number(each) for each in known.values()):
            if splitter.descend(probe):
                raise Retrace
            if any(id(each) in self.given_to_hook for each in known.values()):
                raise CompileError  # splitting saves nothing: the hook passes its arguments on
        for other, its in self.in_program.traced:
            if its.effects and (its.feeds(effects) or self._contend(its, effects)):
                self._again(other)
        statement = Statement(probe, function, given, self.environment, call)
        self.hosted.append((statement, effects))
        of_hook = self.traced_hooks > 0 or local.modes.backward_pass is not None
        exactly = analyse(function, (), {name: exact_kind_of(known.get(name)) for name in given})
        is_known = not of_hook and splitter.changes_as_read(probe, exactly)
        self.changed.note(statement, exactly, self.scope.entry, of_step=is_known)
        found, places = self._found(statement, effects)
        inside, why = self.plan.all_inside, probe.why
        if inside and self.plan.waits_for:
            why += f", and the program waits for `{self.plan.waits_for}`"
        begins = not inside and self._begins(effects, known)
        runs = "inside the program, on the host" if inside else "before the program" if begins else "after the program"
        placed = PlacedStatement(statement, runs, why)
        self.calls.placed.append(placed)
        if inside:
            self.calls.has_inside = True
            self._waited_for.append((statement, effects))
            call = self._noted(effects, OrderedCallback(statement, (known,), found, placed, places), number)
            call.place(None, False, self.calls.raised)
            return False
        later = self._noted(effects, DeferredCallback(statement, (known,), found, placed, places), number)
        later.may_write, later.begins = effects.writes, begins
        certainty = None if effects.writes or begins else cannot_raise(statement, known)
        later.is_certain = certainty is not None
        later.only_notes = certainty is not None and not certainty.computes
        later.looks = any(map(shows_value, ast.walk(probe.statement)))
        self._put_off(later)
        leave_schedulers(effects, placed)
        return False

    def _begins(self, effects: Effects, variables: dict[str, Any]) -> bool:
        """Return whether a statement reads a clock and is the first on the host: it measures the beginning."""
        if self.calls.turns or self.calls.begins or not any(effect.field == "clock" for effect in effects.effects):
            return False
        return not any(isinstance(leaf, (TensorCore, SymbolicScalar)) for leaf in leaves([*variables.values()]))

    def _may_change(self, value: Any) -> bool:
        """Return whether a statement may change an object in the trace: eager code makes a new one in each call."""
        return isinstance(value, (TensorCore, frozenset, tuple, Enum, *PLAIN)) or running_trace().is_own(value)

    def _returns(self, statement: Statement, effects: Effects, variables: dict[str, Any]) -> bool:
        """Record the statement that returns the result: it runs last, when everything is as the step leaves it."""
        if effects.effects:
            self.hosted.append((statement, effects))
        placed = PlacedStatement(statement, "after the program", statement.probe.why)
        self.calls.placed.append(placed)
        leave_schedulers(effects, placed)
        self.calls.returned = Returned(
            statement, {name: variables[name] for name in statement.probe.used if name in variables}
        )
        return False

    def result_for(self, returned: Any) -> Any:
        """Return the program's results for the traced step's result."""
        if self.calls.returned is None or returned is RETURNED:
            return returned if self.calls.returned is None else self.calls.returned.variables
        self.calls.turns += self.calls.returned.behind  # `finally` returned something else
        self.calls.returned = None
        return returned

    def _variable(self, value: Any) -> Any:
        """Return a variable of a statement: tensors as mirrors with their current state in the trace, objects from
        outside unchanged.
        """
        return (
            value
            if isinstance(value, (TensorCore, SymbolicScalar, *PLAIN)) or running_trace().is_own(value)
            else AsItIs(value)
        )


def leave_schedulers(effects: Effects, placed: Placed) -> None:
    for effect in effects.effects:
        if isinstance(effect.target, ReduceLROnPlateau):
            running_trace().schedules.leave_to_host(effect.target, str(placed))


def _is_number(tensor: Any) -> bool:
    return tensor._is_strided and tensor._array.size == 1


def _notes_calls(value: Any) -> bool:
    """Return whether a tensor's class overrides calls and does more than compute: all its uses can't be found."""
    if not (isinstance(value, TensorCore) and overrides(value)):
        return False
    kind: Any = type(value)
    effects = analyse(kind.__torch_function__).effects
    return any(effect.target is not None or effect.kind != "call" or effect.field == "output" for effect in effects)
