"""Which statements of a step are moved to the host, where they run after the program or inside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType, GeneratorType
from typing import NamedTuple

from undertow._src.compile.cures import is_elsewhere
from undertow._src.compile.effects import Effect, Frame, Summary, purity
from undertow._src.compile.effects.values import OPAQUE, TENSORISH, Atom, Bound, Concrete, Fresh, Method
from undertow._src.compile.splitting.missed_effects import MissedEffects
from undertow._src.compile.splitting.statements import Statements
from undertow._src.compile.splitting.step_reading import StepReading
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module
from undertow.optim.lr_scheduler import ReduceLROnPlateau
from undertow.optim.optimizer import Optimizer

_MOST_ROUNDS = 12
_OF_ANY_MODULE = frozenset(vars(Module()))
_ALONG = "it uses what is known only there"


class Moved(NamedTuple):
    """A statement that is moved, among those of its function, and why."""

    statements: Statements
    statement: ast.stmt
    why: str


class StatementMover:
    """Choose the statements to move: those with effects that a program would miss, or that need values.

    All that uses what a statement sets moves with it. A statement stays if the program reads what it changes.
    """

    def __init__(self, reading: StepReading, missed: MissedEffects) -> None:
        self._reading, self._missed = reading, missed
        self._kept: set[int] = set()  # ids of statements that are not moved
        self._read_by_others: set[int] = set()  # ids of statements that stay because of what they change
        self._need_values: list[tuple[FunctionType, ast.stmt]] = []
        self._groups: dict[tuple[int, int], list[ast.stmt] | None] = {}  # the statements that move with one
        self._held_by: dict[Atom, set[Atom]] = {}
        self._grouped = reading.whole  # in this reading

    def keep(self, *statements: int) -> None:
        """Leave statements with these ids in the trace."""
        self._kept.update(statements)

    def unkeep(self, statement: int) -> None:
        """Allow a statement to move again, because it was split, which may make that possible."""
        self._kept.discard(statement)

    def want(self, statements: Statements, path: tuple[ast.stmt, ...]) -> bool:
        """Move a statement that needs a value from now on; return whether that is new and possible."""
        wanted = statements.function, path[-1]
        if wanted in self._need_values or not self._move(statements, path, None, {}):
            return False
        self._need_values.append(wanted)
        return True

    def forget(self, codes: set[int]) -> None:
        """Forget the statements of some code (by its id) that need values: rewritten ones have replaced them."""
        self._need_values = [each for each in self._need_values if id(each[0].__code__) not in codes]

    def reconsider(self) -> None:
        """Consider again the statements that stayed because others read what they change."""
        self._read_by_others.clear()

    def choose(self) -> tuple[dict[int, Moved], Summary]:
        """Return the statements to move, by their ids, and the effects that are left without them."""
        whole = self._reading.whole
        self.reconsider()
        for _ in range(_MOST_ROUNDS):
            moved = self._moved()
            rest, feeding = self._without(moved)
            while feeding and self._pull_readers(rest, feeding, moved):
                rest, feeding = self._without(moved)
            if feeding and self._need_values and not self._seen_elsewhere(moved, rest):  # maybe only the results do
                with_returns = moved | self._returns()
                rest_of_all, feeding = self._without(with_returns)
                if not feeding:
                    return with_returns, rest_of_all
            if not feeding:
                return moved, rest
            self._read_by_others.update(feeding)
        return {}, whole.whole

    def _without(self, moved: dict[int, Moved]) -> tuple[Summary, list[int]]:
        """Return the effects without some statements, and which of these statements change what the rest reads."""
        whole = self._reading.whole
        rest = whole.without(frozenset(moved))
        places = rest.effects.places
        seen = self._seen_elsewhere(moved, rest)
        return rest, [
            key for key in moved if key in seen or any(effect.feeds(places) for effect in whole.effects_of(key))
        ]

    def _seen_elsewhere(self, moved: dict[int, Moved], rest: Summary) -> set[int]:
        """Return the moved statements that change objects of the step which code of other functions uses in the trace."""
        changes, of_step = self._reading.whole.changes, self._reading.is_of_step
        changed = {
            key: {atom for atom in changes.get(key, ()) if isinstance(atom, Fresh)}
            for key, each in moved.items()
            if of_step(each.statements.function) and each.statements.function is not self._reading.function
        }
        every = set().union(*changed.values())
        functions = {id(frame.function) for frame, _ in rest.reached if frame is not None} if every else set[int]()
        found = set[int]()
        for known in self._reading.all_statements() if every else ():
            if id(known.function) not in functions or not of_step(known.function):
                continue
            variables = self._reading.variables(known)
            held = {
                name: every & set(value).union(*map(self._held, value)) for name, value in variables.items()
            }  # fmt: skip
            if not any(held.values()):
                continue
            for path in known.paths.values():
                if any(id(each) in moved for each in path):
                    continue
                used = set[Atom]().union(*[held.get(name, ()) for name in _used_by(path[-1])])
                used -= set() if not used else changes.get(id(path[-1]), set())
                found |= {
                    key for key, its in changed.items() if moved[key].statements.node is not known.node and its & used
                }
        return found

    def _pull_readers(self, rest: Summary, feeding: list[int], moved: dict[int, Moved]) -> bool:
        """Also move statements that read what moved statements change: those of hooks, and those of the step if the moved
        ones need values. Return whether there are any.
        """
        before = len(moved)
        effects = [effect for key in feeding for effect in self._reading.whole.effects_of(key)]
        must = [effect for key in feeding if self._needs_values(key) for effect in self._reading.whole.effects_of(key)]
        for frame, notes in rest.reached:
            if frame is None or not notes.path:
                continue
            changing = must if self._reading.is_of_step(frame.function) else effects
            places = tuple(notes.places.values())
            statements = self._reading.statements_at(frame, notes) if changing else None
            if statements is not None and any(effect.feeds(places) for effect in changing):
                self._move(statements, notes.path, None, moved)
        return len(moved) > before

    def _needs_values(self, statement: int) -> bool:
        """Return whether a statement, or one inside it, needs values, so that it can't be traced."""
        needs = [self._reading.statements_of(function).paths[id(each)] for function, each in self._need_values]
        return any(id(each) == statement for path in needs for each in path)

    def _returns(self) -> dict[int, Moved]:
        """Return the step's `return` statements, if they may run on the host."""
        whole = self._reading.whole
        own = [known for known in self._reading.known_statements() if known.function is self._reading.function]
        ends = [(known, path[-1]) for known in own for path in known.paths.values() if isinstance(path[-1], ast.Return)]
        if not all(known.group_of(end, True, lambda _: set()) and self._may_move(end) for known, end in ends):
            return {}
        if not all(_leaves_tensors_alone(effect) for _, end in ends for effect in whole.effects_of(id(end))):
            return {}
        return {id(end): Moved(known, end, _ALONG) for known, end in ends}

    def _moved(self) -> dict[int, Moved]:
        moved: dict[int, Moved] = {}
        whole = self._reading.whole
        first = [frame for top in whole.tops for frame in top.calls]
        is_complete = self._reading.is_complete
        for key, effect in whole.whole.keyed.items():
            if effect in self._missed and (is_complete or effect.field == "output"):
                self._move_in(first, key, effect, moved, set())
        for function, statement in self._need_values:
            statements = self._reading.statements_of(function)
            self._move(statements, statements.paths[id(statement)], None, moved)
        return moved

    def _move_in(
        self, frames: list[Frame], key: object, effect: Effect, moved: dict[int, Moved], seen: set[Frame]
    ) -> None:
        """Move the statements that cause an effect, in the outermost functions where that is possible."""
        for frame in frames:
            if frame not in seen:
                seen.add(frame)
                for notes, called in self._reading.whole.ways(frame, key):
                    statements = self._reading.statements_at(frame, notes)
                    if statements is None or not self._move(statements, notes.path, effect, moved):
                        self._move_in(called, key, effect, moved, seen)

    def _move(
        self, statements: Statements, path: tuple[ast.stmt, ...], effect: Effect | None, moved: dict[int, Moved]
    ) -> bool:
        """Move the outermost of some nested statements that may be moved, with all that moves with it.

        effect: the reason; None if the innermost statement needs a value.
        """
        if any(id(each) in moved for each in path):
            return True
        for statement in path:
            group = self._group(statements, statement)
            if group is None or not all(map(self._may_move, group)):
                continue
            if effect is not None and not self._may_move_for(effect, statements, statement, group):
                continue
            for each in group:
                why = _ALONG if each is not statement else "it needs a value" if effect is None else f"it {effect.what}"
                moved.setdefault(id(each), Moved(statements, each, why))
            return True
        return False

    def _may_move_for(self, effect: Effect, statements: Statements, statement: ast.stmt, group: list[ast.stmt]) -> bool:
        """Return whether an effect of this kind may happen on the host."""
        reads_clock, sends = effect.field == "clock", isinstance(effect.target, GeneratorType)
        ends = [each for each in group if isinstance(each, ast.Return)]
        if ends and not (reads_clock and all(self._only_shows(statements, end) for end in ends)):
            return False
        goes_on = len(group) > 1 or statements.stored(statement)
        if is_elsewhere(effect.field) and not (reads_clock or sends) and goes_on:
            return False
        return effect.field not in ("debugger", "reflection", "messages")

    def _may_move(self, statement: ast.stmt) -> bool:
        ids = (self._kept, self._read_by_others, self._reading.whole.written)
        return not any(id(statement) in each for each in ids)

    # --- what goes along

    def _group(self, statements: Statements, statement: ast.stmt) -> list[ast.stmt] | None:
        """Return a statement with all that moves with it; None if it may not move, or computes tensors for others."""
        whole = self._reading.whole
        if self._grouped is not whole:
            self._groups, self._held_by, self._grouped = {}, {}, whole
        key = id(statements), id(statement)
        if key not in self._groups:
            is_step = statements.function is self._reading.function
            group = statements.group_of(statement, is_step, lambda each: self._changed(statements, each))
            of_step = self._reading.is_of_step(statements.function)  # hooks may compute tensors on the host
            if group and len(group) > 1 and of_step and any(self._links_tensors(statements, each) for each in group):
                group = None
            if group and of_step and any(self._is_lost(statements, each) for each in group if each is not statement):
                group = None
            effects = [effect for each in group or () for effect in whole.effects_of(id(each))]
            alone = all(_leaves_tensors_alone(each) and not self._missed.is_of_own(each) for each in effects)
            self._groups[key] = group if alone else None
        return self._groups[key]

    def _changed(self, statements: Statements, statement: ast.stmt) -> set[str]:
        """Return the variables that a statement changes: those whose objects, made by the step, it mutates, and those that
        functions it calls rebind.
        """
        changed = self._reading.whole.changes.get(id(statement))
        rebound = self._reading.whole.rebinds.get(id(statement), set()) & statements.local
        if not changed:
            return rebound
        variables, used = self._reading.variables(statements), statements.used(statement)
        return rebound | {  # unknown code can only change the variables that are mentioned there
            name
            for name, value in variables.items()
            if changed & value - (set() if name in used else {OPAQUE})
            or any(changed & self._held(each) for each in value)
        }

    def _held(self, atom: Atom) -> set[Atom]:
        """Return the objects made by the code that an object holds, also in others."""
        if atom not in self._held_by:
            found, waiting = set[Atom](), [atom]
            while waiting:
                inner = [each for each in _parts(waiting.pop()) if each not in found]
                found.update(inner)
                waiting += inner
            self._held_by[atom] = found
        return self._held_by[atom]

    def _links_tensors(self, statements: Statements, statement: ast.stmt) -> bool:
        """Return whether a statement computes tensors for other statements: such work stays in the program."""
        variables = self._reading.variables(statements)
        names = statements.stored(statement) | self._changed(statements, statement)
        return any(_may_be_tensor(atom) for name in names for atom in variables.get(name, ()))

    def _is_lost(self, statements: Statements, statement: ast.stmt) -> bool:
        """Return whether a statement sets a variable to a value that the analyzer has lost track of: it may be tensor work,
        on the step's own model, on which the program depends.
        """
        variables = self._reading.variables(statements)
        if not any(OPAQUE in variables.get(name, ()) for name in statements.stored(statement)):
            return False
        effects = self._reading.whole.effects_of(id(statement))
        return any(effect.field == "unknown" and effect.what.endswith("something unknown") for effect in effects)

    def _only_shows(self, statements: Statements, statement: ast.stmt) -> bool:
        """Return whether a statement only reads tensors or their values, and computes none."""
        variables = self._reading.variables(statements)
        for part in ast.walk(statement):
            if isinstance(part, ast.Call) and getattr(part.func, "attr", "") in ("item", "detach", "tolist"):
                continue
            if isinstance(part, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)):
                operands = [*ast.iter_child_nodes(part)]
                if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                    operands.append(part.func.value)
                names = [each.id for each in operands if isinstance(each, ast.Name)]
                if any(_may_be_tensor(atom) for name in names for atom in variables.get(name, ())):
                    return False
        return True


def _may_be_tensor(atom: Atom, depth: int = 0) -> bool:
    if isinstance(atom, Fresh):
        return depth < 3 and any(_may_be_tensor(each, depth + 1) for each in atom.elements())
    return atom in TENSORISH or (isinstance(atom, Concrete) and isinstance(atom.value, TensorCore))


def _used_by(statement: ast.stmt) -> Iterator[str]:
    """Yield the variables that a statement uses, besides those whose attributes or elements it only sets."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (ast.FunctionDef, ast.Lambda)):
            continue
        inner = [*ast.iter_child_nodes(part)]
        if isinstance(part, (ast.Attribute, ast.Subscript)) and isinstance(part.ctx, ast.Store):
            inner = [each for each in inner if each is not part.value or not isinstance(each, ast.Name)]
        waiting += inner
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id


def _parts(atom: Atom) -> Iterator[Atom]:
    """Yield the objects made by the code that one holds, or that a method is bound to."""
    held = [atom.owner] if isinstance(atom, (Bound, Method)) else atom.all_held() if isinstance(atom, Fresh) else ()
    yield from (each for each in held if isinstance(each, (Fresh, Bound, Method)))


def _leaves_tensors_alone(effect: Effect) -> bool:
    """Return whether an effect changes nothing that undertow's own code reads, which is not analyzed."""
    target = effect.target
    if isinstance(target, ReduceLROnPlateau):  # a scheduler changes options; see `lr_schedulers`
        return True
    if effect.field == "own":
        return False
    if isinstance(target, Optimizer) or (target is not None and purity.origin_of(type(target)) == "own"):
        return False
    if isinstance(target, Module):
        own = all(issubclass(Module, kind) for kind in type(target).__mro__ if purity.origin_of(kind) == "own")
        return own and effect.attribute is not None and effect.attribute not in _OF_ANY_MODULE
    return True
