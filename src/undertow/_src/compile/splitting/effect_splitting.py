"""What a step's own code does besides tensor work: done on the host after the program, like hooks that observe, or refused.

The step is read before it is traced. A statement that prints, appends, counts or logs, and whose doings nothing else in
the step depends on, is moved: in the trace its turn is noted, with the values of its local variables, and after the
program it is run with what they are then. So are statements that ask for a value (`losses.append(loss.item())`), once the
trace has come upon them. What can't be moved and would be lost (a clock, random numbers of Python's) stops the compile;
changes of what is watched from call to call (see `snapshot`) stay in the trace, and make the step compile again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.base.sites import PACKAGE, warn
from undertow._src.compile.callbacks.registrations import code_of, where_defined
from undertow._src.compile.cures import OTHERWISE, cure_of, is_elsewhere
from undertow._src.compile.effects import (
    TOO_LARGE,
    Called,
    Coverage,
    Effect,
    Effects,
    Exactly,
    Frame,
    Kind,
    Limits,
    Notes,
    Part,
    Parts,
    Reading,
    kind_of,
    purity,
    read,
    together,
)
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.effects.values import OPAQUE, TENSORISH, Atom, Fresh, Known
from undertow._src.compile.errors import CompileError, CompileWarning
from undertow._src.compile.guards.places import OfClass, Slots, contents_of
from undertow._src.compile.guards.reachability import Reached, is_foreign
from undertow._src.compile.splitting.anf import take_apart
from undertow._src.compile.splitting.code_rewriting import with_probes
from undertow._src.compile.splitting.statement_probes import ProbedCode, StatementProbe
from undertow._src.compile.splitting.statements import Statements, loaded_by
from undertow._src.compile.tracing.lifted import Lifting
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module
from undertow.optim.lr_scheduler import ReduceLROnPlateau
from undertow.optim.optimizer import Optimizer

Moved = dict[int, tuple[Statements, ast.stmt, str]]  # statements by their ids, with whose they are and why they go

FEW_STEPS = 12_000  # of the reader; if it takes more to read a step, only code that runs is read
_MOST_READINGS = 24
_MOST_ROUNDS = 12
_MOST_TIMES = 4  # that hooks of one definition are taken in, each of which takes another trace
_OF_ANY_MODULE = frozenset(vars(Module()))


class EffectSplitter:
    """The statements of a step's own code, and of what it calls, that are not simply traced."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        coverage: Coverage | None = None,
    ) -> None:
        self.function = function
        self.coverage = coverage  # what ran in traces, if there is more code than can be read
        self._times_read, self._reads_all = 0, False
        given = [kind_of(arg) for arg in args], {name: kind_of(arg) for name, arg in kwargs.items()}
        self._calls: dict[Any, Called] = {None: (function, *given)}  # that are read: the step, and hooks in parts
        self._readings: dict[Any, Reading] = {}  # of those
        self._rounds: dict[str, int] = {}  # how often hooks of a definition were taken in
        self._in_one_piece: set[str] = set()  # hooks that are not taken apart, by where they are defined
        self._watch((function, args, kwargs))
        self._kept: set[int] = set()  # ids of statements that are not moved
        self._fed: set[int] = set()  # nor are these: others read what they change
        self._wanted: list[tuple[Statements, ast.stmt]] = []  # those that asked for values
        self._known: dict[int, Statements] = {}
        self.code = ProbedCode([])
        self._said: set[str] = set()
        self._lifted: dict[
            int, tuple[FunctionType, Any, Lifting]
        ] = {}  # by their ids: those in which they are replaced
        self._groups: dict[tuple[int, int], list[ast.stmt] | None] = {}  # what goes along with a statement
        self._variables_of: dict[Any, dict[str, set[Atom]]] = {}  # what the variables of functions may be
        self.whole = self._read()
        self._plan()

    def _watch(self, root: Any) -> None:
        """Find out which places are looked at from call to call."""
        self._root, state = root, Reached()
        state.walk(root, "step")
        self.names_in_packages(state)
        places = (*state.maps, *state.lists, *state.cells, *state.arrays)
        self._watched = {id(holder.owner if isinstance(holder, (OfClass, Slots)) else holder) for holder, _ in places}
        self._watched |= {id(group) for optimizer in state.optimizers for group in optimizer.param_groups}
        self._watched_names = {(id(names), name) for names, name in state.globals}

    def names_in_packages(self, state: Reached) -> None:
        """Add what code of packages that ran in traces looks up."""
        for code, namespace in self.coverage.packages.values() if self.coverage is not None else ():
            state.look_up_for(code, namespace)

    def _read(self) -> Reading:
        """Return what the step and the hooks in parts do; each is read once, until its code is taken apart."""
        self._variables_of, self._groups = {}, {}
        known = self._readings
        self._readings = {  # a hook on the host is not watched as the step is, and may come to other code in a later call
            key: known[key] if key in known else self._read_step(call) if key is None else read(*call)
            for key, call in self._calls.items()
        }
        return together(list(self._readings.values()))

    def _read_step(self, call: Called) -> Reading:
        """Read all that the step can reach; if that is too much, what ran in traces, of which there are none yet."""
        if self.coverage is None:
            found = read(*call, decides=True, limits=Limits(None if self._reads_all else FEW_STEPS))
            if self._reads_all or _is_complete(found):
                return found
            self.coverage = Coverage()
        return read(*call, decides=True, limits=Limits(None, self.coverage))

    def read_more(self) -> None:
        """Read the step again, after more of it has run. If that has happened too often, all that it can reach."""
        self._times_read += 1
        if self._times_read > _MOST_READINGS:
            self.coverage, self._reads_all = None, True
        self._watch(self._root)
        self._readings.pop(None, None)
        self._read_again()

    def _statements(self, frame: Any) -> Statements | None:
        """Return the statements of a function that was gone through, if they can be moved."""
        if not isinstance(frame.owner, FunctionType) or not isinstance(frame.node, ast.FunctionDef):
            return None
        if purity.origin_of(frame.function) == "own":
            return None
        if id(frame.function) not in self._known:
            self._known[id(frame.function)] = Statements(frame.function, frame.node)
        return self._known[id(frame.function)]

    def _of_the_same_code(self, statements: Statements) -> list[Statements]:
        """Return a function's statements, and those of others that one definition made: each has a closure of its own."""
        for frame in self.whole.frames:
            self._statements(frame)
        return [known for known in self._known.values() if known.node is statements.node]

    def compares_types(self, *kinds: str) -> bool:
        """Whether the code asks for the exact type of something (`type(n) is int`): nothing else may stand for it."""
        frames = [frame for frame in self.whole.frames if purity.origin_of(frame.function) != "own"]
        parts = (part for frame in frames for part in ast.walk(frame.node) if isinstance(part, ast.Compare))
        return any("type" in names and not names.isdisjoint(kinds) for names in map(_names_in, parts))

    # --- which statements are moved

    def _plan(self) -> None:
        self._fed.clear()
        for _ in range(_MOST_ROUNDS):
            moved = self._moved()
            rest, fed = self._without(moved)
            if fed and self._wanted:  # maybe only the results depend on it
                with_ends = moved | self._ends()
                rest_of_all, still_fed = self._without(with_ends)
                if not still_fed:
                    moved, rest = with_ends, rest_of_all
                fed = still_fed
            if not fed:
                break
            self._fed.update(fed)
        else:
            moved, rest = {}, self.whole.whole
        if (
            self.coverage is not None and not moved.keys() <= self.coverage.hosted
        ):  # they come to other code than traces
            self.coverage.hosted |= moved.keys()
            self._readings.pop(None, None)
            self._read_again()
            return
        self.rest, self._moved_ids, self._reached = rest.effects, set(moved), rest.reached
        probes = [
            StatementProbe(each, statement, why)
            for known, statement, why in moved.values()
            for each in self._of_the_same_code(known)
        ]
        probes += self._watches(rest)
        if any(self._take_apart(probe.statements, probe.statement) for probe in probes if probe.refusal):
            self._plan()
            return
        by_function: dict[int, tuple[Statements, dict[int, StatementProbe]]] = {}
        for probe in sorted(probes, key=lambda probe: (not probe.refusal, probe.changes_unknown)):
            own = by_function.setdefault(id(probe.statements), (probe.statements, {}))[1]
            own.setdefault(id(probe.statement), probe)
        marked: list[tuple[FunctionType, Any]] = []
        for known in self._known.values():
            if id(known.function) in self._lifted:
                by_function.setdefault(id(known), (known, {}))
        for function, node, lifting in self._lifted.values():
            code = with_probes(function, node, {}, lifting) if isinstance(node, ast.Lambda) else None
            if code is not None:
                marked.append((function, code))
        for statements, own in by_function.values():
            lift = self._lifted[id(statements.function)][2] if id(statements.function) in self._lifted else None
            code = with_probes(statements.function, statements.node, own, lift)
            if code is not None:
                marked.append((statements.function, code))
            elif not moved.keys().isdisjoint(own):
                self._kept.update(own)
                self._plan()
                return
        self.code = ProbedCode(marked)

    def _without(self, moved: Moved) -> tuple[Part, list[int]]:
        """Return what the code does without some statements; and which of those change what it reads."""
        rest = self.whole.without(frozenset(moved))
        places = rest.effects.places
        return rest, [key for key in moved if any(effect.feeds(places) for effect in self.whole.effects_of(key))]

    def _ends(self) -> Moved:
        """Return the step's `return` statements, if they may run on the host."""
        function = getattr(self.function, "__func__", self.function)
        own = [known for known in self._known.values() if known.function is function]
        ends = [(known, path[-1]) for known in own for path in known.paths.values() if isinstance(path[-1], ast.Return)]
        if not all(known.together(end, True, lambda _: set()) and self._may_move(end) for known, end in ends):
            return {}
        if not all(_leaves_tensors_alone(effect) for _, end in ends for effect in self.whole.effects_of(id(end))):
            return {}
        return {id(end): (known, end, "it uses what is known only there") for known, end in ends}

    def _moved(self) -> Moved:
        moved: Moved = {}
        first = [frame for top in self.whole.tops for frame in top.calls]
        is_complete = _is_complete(self.whole)
        for key, effect in self.whole.whole.keyed.items():
            if self._deserves(effect) and (is_complete or effect.field == "output"):
                self._move_in(first, key, effect, moved, set())
        for statements, statement in self._wanted:
            self._move(statements, statements.paths[id(statement)], None, moved)
        return moved

    def _move_in(self, frames: list[Frame], key: Any, effect: Effect, moved: Moved, seen: set[Frame]) -> None:
        """Move the statements that an effect comes about by, in the outermost functions where that is possible."""
        for frame in frames:
            if frame not in seen:
                seen.add(frame)
                for notes, called in self.whole.ways(frame, key):
                    statements = self._statements_at(frame, notes)
                    if statements is None or not self._move(statements, notes.path, effect, moved):
                        self._move_in(called, key, effect, moved, seen)

    def _statements_at(self, frame: Frame, notes: Notes) -> Statements | None:
        """Return the statements of a function, if what the notes are about is among them."""
        statements = self._statements(frame)
        return (
            statements if statements is not None and all(id(each) in statements.paths for each in notes.path) else None
        )

    def _move(self, statements: Statements, path: tuple[ast.stmt, ...], effect: Effect | None, moved: Moved) -> bool:
        """Move the outermost of some statements around each other that may be moved, with all that goes along."""
        if any(id(each) in moved for each in path):
            return True
        for statement in path:
            group = self._group(statements, statement)
            if group is None or not all(self._may_move(each) for each in group):
                continue
            reads_clock = effect is not None and effect.field == "clock"
            ends = [each for each in group if isinstance(each, ast.Return)]
            if (
                effect is not None
                and not (reads_clock and all(self._only_shows(statements, end) for end in ends))
                and ends
            ):
                continue
            goes_on = len(group) > 1 or statements.stored(statement)
            if effect is not None and is_elsewhere(effect.field) and not reads_clock and goes_on:
                continue
            if effect is not None and effect.field in ("debugger", "reflection"):
                continue
            for each in group:
                why = (
                    "it uses what is known only there"
                    if effect is None or each is not statement
                    else f"it {effect.what}"
                )
                if effect is None and each is statement:
                    why = "it needs a value"
                moved.setdefault(id(each), (statements, each, why))
            return True
        return False

    def _group(self, statements: Statements, statement: ast.stmt) -> list[ast.stmt] | None:
        """Return the statement with all that goes along, if it may go at all; None too if that would be the step's
        own work.
        """
        key = id(statements), id(statement)
        if key not in self._groups:
            whole = statements.function is getattr(self.function, "__func__", self.function)
            group = statements.together(statement, whole, lambda each: self._changed(statements, each))
            if group and len(group) > 1 and any(self._links_tensors(statements, each) for each in group):
                group = None
            effects = [effect for each in group or () for effect in self.whole.effects_of(id(each))]
            if not all(map(_leaves_tensors_alone, effects)):
                group = None
            self._groups[key] = group
        return self._groups[key]

    def _changed(self, statements: Statements, statement: ast.stmt) -> set[str]:
        """Return the variables whose object a statement changes, where the step itself made it."""
        changed = self.whole.changes.get(id(statement))
        if not changed:
            return set()
        variables, used = self._variables(statements), statements.used(statement)
        return {  # what nothing is known of is only in the variables that are mentioned there
            name for name, value in variables.items() if changed & value - (set() if name in used else {OPAQUE})
        }

    def _variables(self, statements: Statements) -> dict[str, set[Atom]]:
        """Return what the variables of a function may be."""
        if not self._variables_of:
            for frame in self.whole.frames:
                known = self._variables_of.setdefault((frame.function, frame.node), {})
                for name, value in frame.scope.values.items():
                    known.setdefault(name, set()).update(value)
        return self._variables_of.get((statements.function, statements.node), {})

    def _links_tensors(self, statements: Statements, statement: ast.stmt) -> bool:
        """Whether a statement computes tensors for others: the step's own work, which stays in the program."""
        variables = self._variables(statements)
        names = statements.stored(statement) | self._changed(statements, statement)
        return any(_may_be_tensor(atom) for name in names for atom in variables.get(name, ()))

    def _only_shows(self, statements: Statements, statement: ast.stmt) -> bool:
        """Whether a statement takes tensors as they are, or their values: it computes none."""
        variables = self._variables(statements)
        for part in ast.walk(statement):
            if isinstance(part, ast.Call) and getattr(part.func, "attr", "") in ("item", "detach", "tolist"):
                continue
            if isinstance(part, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)):
                operands = [*ast.iter_child_nodes(part)]
                operands += (
                    [part.func.value] if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else []
                )
                names = [each.id for each in operands if isinstance(each, ast.Name)]
                if any(_may_be_tensor(atom) for name in names for atom in variables.get(name, ())):
                    return False
        return True

    def _may_move(self, statement: ast.stmt) -> bool:
        return not any(id(statement) in ids for ids in (self._kept, self._fed, self.whole.written))

    def moved_effects(self) -> list[Effect]:
        """Return what statements on the host do, also those whose turn does not come in this trace."""
        return [effect for statement in self._moved_ids for effect in self.whole.effects_of(statement)]

    # --- which are missed

    def _deserves(self, effect: Effect) -> bool:
        """Whether an effect has to happen on each call, and would not."""
        if effect.field in ("own", "harmless") or effect.file.startswith(PACKAGE):
            return False
        if effect.field == "unknown" and not effect.what.startswith("calls `") and purity.is_installed(effect.file):
            return False  # the reader lost track of a value in a package, which says little
        if self.coverage is not None and effect.attribute is not None and purity.is_installed(effect.file):
            return not self._is_watched(effect)  # what it is there for is seldom to be seen from outside
        return effect.kind != "store" or not self._is_watched(effect)

    def _is_watched(self, effect: Effect) -> bool:
        """Whether a change is seen before the next call, which then compiles again."""
        target = effect.target
        if is_elsewhere(effect.field):
            return False
        if id(target) in self._watched or (id(target), effect.attribute) in self._watched_names:
            return True
        return not isinstance(target, type) and id(instance_dict(target)) in self._watched

    def _watches(self, rest: Part) -> Iterator[StatementProbe]:
        """Yield a probe for each statement that should not be reached, because what they do would not be done again."""
        here = {notes for _, notes in rest.reached}
        for frame, notes in rest.reached:
            for key in notes.effects:
                effect = rest.keyed[key]
                if not self._deserves(effect) or self._is_watched(effect):
                    continue
                said = {}
                if effect.field == "unknown":
                    if not effect.what.startswith(("calls `", TOO_LARGE)):
                        continue  # the reader lost track of a value, which says little
                    said["warning"] = (
                        f"the step {effect}, and that can't be followed. If it does more than work on tensors, it does so "
                        f"when the step is compiled and not on later calls: {OTHERWISE}."
                    )
                else:
                    said["refusal"] = (
                        f"undertow.compile: the step {effect}, which would happen when it is compiled, and not on later "
                        f"calls: {cure_of(effect)}."
                    )
                unknown = effect.target is None and effect.kind != "call"
                places = list(self._nearest(frame, notes, here, set()))
                for statements, statement in places:
                    for each in self._of_the_same_code(statements):
                        yield StatementProbe(each, statement, effect.what, **said, changes_unknown=unknown)
                if not places:  # the step is a lambda, in which nothing can be marked
                    self._say_now(**said)

    def _nearest(
        self, frame: Frame | None, notes: Notes, here: set[Notes], seen: set[Notes]
    ) -> Iterator[tuple[Statements, ast.stmt]]:
        """Return the statement that notes are about, if it can be marked, or else those around the calls that lead
        to it.
        """
        if frame is None or notes in seen:
            return
        seen.add(notes)
        statements = self._statements_at(frame, notes)
        if statements is not None and notes.path:
            yield statements, notes.path[-1]
            return
        for caller, calling in self.whole.callers[frame]:
            if calling in here:
                yield from self._nearest(caller, calling, here, seen)

    # --- hooks in parts

    def take_in(self, call: Called, met: set[Any], alike: Sequence[Called] = ()) -> bool:
        """From now on a hook's statements are moved as the step's own are. False if they are not to be.

        met: those in parts that had their turn in this trace; a hook that the step makes is another one in each.
        alike: calls of hooks of the same code, which will have their turn, too.
        """
        where, code = where_defined(call[0]), code_of(call[0])
        if code is None or code.co_name == "<lambda>":  # which is of one piece
            return False
        taken = [key for key, each in self._calls.items() if key is not None and where_defined(each[0]) == where]
        self._rounds[where] = self._rounds.get(where, 0) + 1
        if where in self._in_one_piece or (taken and met.isdisjoint(taken)) or self._rounds[where] > _MOST_TIMES:
            return False
        self._calls.update({_key(each): each for each in (call, *alike)})
        self._read_again()
        return True

    def part_of(self, call: Called) -> tuple[Any, Effects] | None:
        """Return what is left of a hook in parts when some of its statements are moved, and by what it is known."""
        key = _key(call)
        if key not in self._calls:
            return None
        return key, self._readings[key].without(frozenset(self._moved_ids)).effects

    def leave(self, hook: Any) -> None:
        """Lets a hook be of one piece after all."""
        where = where_defined(hook)
        self._in_one_piece.add(where)
        self._calls = {key: call for key, call in self._calls.items() if key is None or where_defined(call[0]) != where}
        self._read_again()

    def _read_again(self) -> None:
        self.whole = self._read()
        self._plan()

    def _say_now(self, refusal: str = "", warning: str = "") -> None:
        if refusal:
            raise CompileError(refusal)
        self._warn_once(warning)

    # --- while the step is traced

    def reads_variable(self, hook: Any, value: Any) -> bool:
        """Whether the code around a hook itself reads the variable in which both have a value, or which the value is."""
        cells = zip(
            getattr(getattr(hook, "__code__", None), "co_freevars", ()), getattr(hook, "__closure__", None) or ()
        )
        names = {name for name, cell in cells if cell is value or contents_of(cell) is value}
        return any(
            name in frame.function.__code__.co_cellvars and name in loaded_by(frame.node)
            for frame in self.whole.frames
            if isinstance(frame.owner, FunctionType)  # and not for a function inside it
            for name in names
        )

    def names_left(self) -> dict[CodeType, set[str]]:
        """By code of which some statements are moved: the names in the others."""
        return {
            statements.function.__code__: statements.names_without(self._moved_ids)
            for statements in self._known.values()
        }

    def all_names(self) -> set[str]:
        """Return the names in code of which some statements may be moved, of attributes too."""
        return set().union(*[statements.names_without(set()) for statements in self._known.values()])

    def places_in_packages(self) -> Iterator[tuple[Any, str | None]]:
        """Yield where code of installed packages that is traced looks: globals, attributes, containers."""
        for frame, notes in self._reached:
            if frame is None or is_foreign(frame.function):
                continue
            if purity.is_installed(frame.function.__code__.co_filename):
                yield from notes.places.values()
                kept = (read.kept_at for read in notes.reads.values() if read.kept_at is not None)
                yield from ((holder, key) for holder, key in kept if isinstance(holder, dict) and type(key) is str)

    def computed_with(self) -> set[int]:
        """Return the ids of NumPy arrays from outside whose numbers the code reads."""
        return {id(place.owner) for place in self.whole.effects.places if isinstance(place.owner, np.ndarray)}

    def warn(self, probe: StatementProbe) -> None:
        """Says once what may be lost."""
        self._warn_once(probe.warning)

    def _warn_once(self, warning: str) -> None:
        if warning not in self._said:
            self._said.add(warning)
            warn(warning, CompileWarning)

    def keep(self, probe: StatementProbe) -> None:
        """Leaves a statement where it is after all."""
        self._kept.add(id(probe.statement))
        self._plan()

    def lift(self, code: CodeType | None = None) -> bool:
        """Has functions in C replaced where a function, or any, calls them; False if there are no more."""
        for frame in self.whole.frames:
            self._statements(frame)
        found = [(known.function, known.node) for known in self._known.values()]
        lambdas = [frame for frame in self.whole.frames if isinstance(frame.node, ast.Lambda)]
        found += [(frame.function, frame.node) for frame in lambdas if isinstance(frame.owner, FunctionType)]
        before = len(self._lifted)
        for function, node in found:
            if id(function) not in self._lifted and (code is None or _is_code_of(function, code)):
                lifting = Lifting(function, node)
                if lifting.finds_any:
                    self._lifted[id(function)] = function, node, lifting
        if len(self._lifted) > before:
            self._plan()
        return len(self._lifted) > before

    def move_what_asked(self, error: NeedsValue) -> bool:
        """Move the statement that asked for a value; False if it can't be."""
        if not _is_complete(self.whole):
            return False
        way, trace = [], error.__traceback__
        while trace is not None:
            way.append((trace.tb_frame.f_code, trace.tb_lineno))
            trace = trace.tb_next
        for frame in self.whole.frames:
            self._statements(frame)
        self._fed.clear()
        for code, line in way:
            for statements in self._known.values():
                if _is_code_of(statements.function, code):
                    for path in statements.at_line(line):
                        if self._move(statements, path, None, {}) and (statements, path[-1]) not in self._wanted:
                            self._wanted.append((statements, path[-1]))
                            self._plan()
                            return True
        return self._take_apart_what_asked(way)

    def _take_apart_what_asked(self, way: list[tuple[CodeType, int]]) -> bool:
        """Take statements on the way to who asked for a value apart, so that a piece may be moved."""
        for code, line in way:
            for statements in list(self._known.values()):
                if _is_code_of(statements.function, code):
                    around = [(each, path) for path in statements.at_line(line) for each in path]
                    here = [each for each, path in around if each.lineno == line or each is path[-1]]
                    if [each for each in here if self._take_apart(statements, each)]:
                        self._plan()
                        return True
        return False

    def _take_apart(self, statements: Statements, statement: ast.stmt) -> bool:
        """Whether a statement has pieces, which take its place from now on."""
        if not take_apart(statements.node, statement):
            return False
        self._kept.discard(id(statement))  # without its pieces it may be movable
        for key, known in self._known.items():
            if known.node is statements.node:
                self._known[key] = Statements(known.function, known.node)
        self._wanted = [(self._known[id(known.function)], each) for known, each in self._wanted]
        self._readings = {key: reading.renewed(statements.node) for key, reading in self._readings.items()}
        self.whole = self._read()
        return True


def _is_complete(reading: Reading) -> bool:
    """Whether all of the code was read. Otherwise nothing is known of what a statement does, or others read of it."""
    return not any(effect.what == TOO_LARGE for effect in reading.effects.effects)


def _key(call: Called) -> Any:
    """Return what tells one call of a hook from another: the hook, and what is known of its arguments."""

    def known(kind: Kind) -> Any:
        if isinstance(kind, Exactly):
            return id(kind.value)
        return tuple(map(known, kind.kinds)) if isinstance(kind, Parts) else kind

    hook, args, kwargs = call
    return id(hook), *map(known, args), *[(name, known(kind)) for name, kind in kwargs.items()]


def _is_code_of(function: FunctionType, code: CodeType) -> bool:
    own = function.__code__
    return own.co_firstlineno == code.co_firstlineno and (own.co_filename, own.co_name) == (
        code.co_filename,
        code.co_name,
    )


def _may_be_tensor(atom: Atom, depth: int = 0) -> bool:
    if isinstance(atom, Fresh):
        return depth < 3 and any(_may_be_tensor(each, depth + 1) for each in atom.elements())
    return atom in TENSORISH or (isinstance(atom, Known) and isinstance(atom.value, TensorCore))


def _leaves_tensors_alone(effect: Effect) -> bool:
    """Whether an effect changes nothing that undertow's own code reads, which is not gone through."""
    target = effect.target
    if isinstance(target, ReduceLROnPlateau):  # it changes options; see `schedules`
        return True
    if effect.field == "own":
        return False
    if isinstance(target, Optimizer) or (target is not None and purity.origin_of(type(target)) == "own"):
        return False
    if isinstance(target, Module):
        own = all(issubclass(Module, kind) for kind in type(target).__mro__ if purity.origin_of(kind) == "own")
        return own and effect.attribute is not None and effect.attribute not in _OF_ANY_MODULE
    return True


def _names_in(expression: ast.AST) -> set[str]:
    parts = [*ast.walk(expression)]
    return {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.attr for part in parts if isinstance(part, ast.Attribute)
    }
