"""Effects of a step's own code: they happen on the host, like those of hooks, or are refused.

The step is read before it is traced. A statement that prints, appends, counts or logs, and whose effects nothing else in
the step depends on, is moved: the trace records when it would run, with the values of its local variables, and after the
program it runs with this call's values. So are statements that need a value (`losses.append(loss.item())`), once the
trace has reached them. What can't be moved and would be missed (a clock, Python's random numbers) stops the compile;
changes of what guards watch stay in the trace, and make the step compile again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.base.sites import warn
from undertow._src.compile.callbacks.registrations import code_of, where_defined
from undertow._src.compile.effects import Called, Coverage, Effect, Effects, Reading, combined, purity, read
from undertow._src.compile.errors import CompileError, CompileWarning
from undertow._src.compile.guards.reachability import is_foreign
from undertow._src.compile.splitting.anf import is_piece, take_apart
from undertow._src.compile.splitting.hook_rewriting import HookForms, may_be_rewritten
from undertow._src.compile.splitting.missed_effects import MissedEffects
from undertow._src.compile.splitting.moved_statements import StatementMover
from undertow._src.compile.splitting.recompiled_functions import with_probes
from undertow._src.compile.splitting.statement_probes import ProbedCode, StatementProbe
from undertow._src.compile.splitting.statements import Statements
from undertow._src.compile.splitting.step_reading import ANY, StepReading
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.host_scalar_functions import Lifting

_MOST_TIMES = 4  # hooks of one definition that are split; each needs one more trace


class EffectSplitter:
    """Split the code of a step, and of hooks, into what is traced and what runs on the host.

    reading: what is known of the code; rest: the effects of what is traced, with hooks and without them (rest_of_step);
    code: the functions, with probes.
    """

    rest: Effects
    rest_of_step: Effects
    choices = 0  # how often statements were chosen
    draws = False  # whether the step may draw from generators of Python and NumPy; see `python_draws`

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
        coverage: Coverage | None = None,
    ) -> None:  # fmt: skip
        self.reading = StepReading(function, args, kwargs, coverage)
        self.code = ProbedCode([])
        self._missed = MissedEffects((function, args, kwargs), self.reading)
        self._mover = StatementMover(self.reading, self._missed)
        self._times_split: dict[str, int] = {}  # hooks, by where they are defined
        self._whole_hooks: set[str] = set()  # hooks that are not split
        self._forms = HookForms()
        self._descended: set[int] = set()  # ids of statements for which statements of their callees were to move
        self._lifted: dict[int, tuple[FunctionType, Any, Lifting]] = {}  # functions with replaced calls, by their ids
        self._said: set[str] = set()
        self._plan()

    # --- what is moved

    def _plan(self) -> None:
        """Choose the statements that are moved, and put probes into the code."""
        self.choices += 1
        moved, rest = self._mover.choose()
        coverage = self.reading.coverage
        if coverage is not None and not moved.keys() <= coverage.hosted:  # on the host they reach different code
            coverage.hosted |= moved.keys()
            self.reading.read_step_again()
            self._plan()
            return
        self.rest, self._moved, self._reached = rest.effects, set(moved), rest.reached
        has_hooks = bool(self.reading.calls_of_hooks())
        self.rest_of_step = self.reading.step.without(frozenset(moved)).effects if has_hooks else self.rest
        probes = [
            StatementProbe(each, statement, why)
            for statements, statement, why in moved.values()
            for each in self.reading.of_same_code(statements)
        ]
        probes += self._missed.probes(rest, self._say_now)
        self._lift_draws()
        if any(self._take_apart(probe.statements, probe.statement) for probe in probes if probe.refusal):
            self._plan()
        elif not self._put_into_code(probes):
            self._plan()

    def _put_into_code(self, probes: list[StatementProbe]) -> bool:
        """Make the code with probes. Return False if a moved statement can't have one: it then stays in the trace."""
        by_function: dict[int, tuple[Statements, dict[int, StatementProbe]]] = {}
        for probe in sorted(probes, key=lambda probe: (not probe.refusal, probe.changes_unknown)):
            own = by_function.setdefault(id(probe.statements), (probe.statements, {}))[1]
            own.setdefault(id(probe.statement), probe)
        for known in self.reading.known_statements():
            if id(known.function) in self._lifted:
                by_function.setdefault(id(known), (known, {}))
        made: list[tuple[FunctionType, CodeType | None]] = [
            (function, with_probes(function, node, {}, lifting))
            for function, node, lifting in self._lifted.values()
            if isinstance(node, ast.Lambda)
        ]
        for statements, own in by_function.values():
            function = statements.function
            lifting = self._lifted[id(function)][2] if id(function) in self._lifted else None
            code = with_probes(function, statements.node, own, lifting)
            if code is None and not self._moved.isdisjoint(own):
                self._mover.keep(*own)
                return False
            made.append((function, code))
        self.code = ProbedCode([(function, code) for function, code in made if code is not None])
        return True

    def keep(self, probe: StatementProbe) -> None:
        """Keep a statement in the trace after all."""
        self._mover.keep(id(probe.statement))
        self._plan()

    def read_more(self) -> None:
        """Read the step again, after more of it has run."""
        self.reading.read_more()
        self._missed.look_again()
        self._plan()

    def release(self) -> None:
        """Undo all rewriting of code, when no more traces follow."""
        self._forms.undo()

    def moved_effects(self) -> list[Effect]:
        """Return the effects of statements on the host, also of those that this trace does not reach."""
        return [effect for statement in self._moved for effect in self.reading.whole.effects_of(statement)]

    def changes_as_read(self, probe: StatementProbe, exactly: Effects) -> bool:
        """Return whether the reading of the step knows that a statement changes objects which the step makes."""
        changes = any(running_trace().is_own(effect.target) for effect in exactly.effects if effect.target is not None)
        return not changes or bool(self.reading.whole.changes.get(id(probe.statement)))

    def missed_among(self, effects: Effects) -> list[Effect]:
        """Return the effects that happen in the trace only, without those of which it is uncertain whether they are any."""
        return [each for each in effects.effects if each.field != "unknown" and self._missed.is_lost(each)]

    def names_left(self) -> dict[CodeType, set[str]]:
        """Return the names in code of which some statements are moved, without those in these statements."""
        return self.reading.names_without(self._moved)

    def loads_left(self) -> set[str]:
        """Return the variables and attributes that the step itself reads in the trace; see `loaded_without`."""
        unknown = any(effect.field == "unknown" for effect in self.rest_of_step.effects)
        return self.reading.loaded_without(self._moved) | ({ANY} if unknown else set())

    def places_in_packages(self) -> Iterator[tuple[Any, str | None]]:
        """Yield the places that traced code of installed packages reads: globals, attributes, containers."""
        for frame, notes in self._reached:
            if frame is None or is_foreign(frame.function):
                continue
            if purity.is_installed(frame.function.__code__.co_filename):
                yield from notes.places.values()
                kept = (read.kept_at for read in notes.reads.values() if read.kept_at is not None)
                yield from ((holder, key) for holder, key in kept if isinstance(holder, dict) and type(key) is str)

    # --- hooks

    def split_hook(self, call: Called, met: set[Any], alike: Sequence[Called] = ()) -> bool:
        """Move a hook's statements from now on, as the step's own. Return False if they must stay.

        met: split hooks that fired in this trace; a hook that the step makes is a new one in each.
        alike: calls of hooks of the same code, which will fire, too.
        """
        where, code = where_defined(call[0]), code_of(call[0])
        if code is None:
            return False
        split = self._hooks_at(where)
        self._times_split[where] = self._times_split.get(where, 0) + 1
        if where in self._whole_hooks or (split and met.isdisjoint(split)) or self._times_split[where] > _MOST_TIMES:
            return False
        self._take_hooks_apart([call, *alike])
        self.reading.add_hooks([call, *alike])
        if any(self.reading.whole.effects_of(each) or each in self.reading.whole.written for each in self._forms.early):
            self.keep_hook_whole(call[0])
            return False
        self._mover.keep(*self._forms.kept)
        self._plan()
        if not self._moved.isdisjoint(self._forms.early):  # the host would do something that eager mode does not do
            self.keep_hook_whole(call[0])
            return False
        return True

    def does_more(self) -> bool:
        """Whether hooks do work in the trace that eager mode may not do."""
        return bool(self._forms.early)

    def _take_hooks_apart(self, calls: list[Called]) -> None:
        """Rewrite hooks, and those that call the same functions or read what they change."""
        of_step, known = self.reading.step_code(), self.reading.calls_of_hooks()
        new = combined([read(*call) for call in calls])
        others = [effect for call in known for effect in self.reading.effects_of_hook(call)]
        codes = _code_in(new) - of_step
        feeds = any(effect.feeds(self.rest.places) for effect in new.effects.effects)
        again: list[Called] = []
        size = -1
        while len(again) > size:
            size = len(again)
            again = [call for call in known if feeds or not codes.isdisjoint(_code_in(self.reading.of_hook(call)))]
            codes = codes.union(*[_code_in(self.reading.of_hook(call)) for call in again]) - of_step
        self._forms.undo(codes)
        self._forms.take_apart([*calls, *again], of_step, others)
        self.reading.forget(codes, again)
        self._mover.forget(codes)

    def rest_of_hook(self, call: Called) -> tuple[Any, Effects] | None:
        """Return the key of a split hook, and its effects without the statements that are moved."""
        found = self.reading.reading_of(call)
        return None if found is None else (found[0], found[1].without(frozenset(self._moved)).effects)

    def keep_hook_whole(self, hook: Any) -> None:
        """Never split a hook again."""
        where = where_defined(hook)
        self._whole_hooks.add(where)
        code = code_of(hook)
        if code is not None:
            self._forms.undo({id(code)})
        self.reading.remove_hooks(self._hooks_at(where))
        self._plan()

    def descend(self, probe: StatementProbe) -> bool:
        """Instead of a hook's statement, move statements of the functions that it passes tensors to.

        Return False if the effects are in the statement itself, or can't be moved there.
        """
        key = id(probe.statement)
        if key in self._descended or not self._forms.has(probe.statements.function):
            return False
        self._descended.add(key)
        whole = self.reading.whole
        here = [notes for frame in whole.frames for notes in frame.notes.values() if probe.statement in notes.path]
        if any(notes.effects for notes in here) or not any(notes.calls for notes in here):
            return False
        left = len([effect for effect in self.rest.effects if effect in self._missed])
        self._mover.keep(key)
        self._plan()
        if len([effect for effect in self.rest.effects if effect in self._missed]) > left:
            self._mover.unkeep(key)
            self._plan()
            return False
        return True

    def _hooks_at(self, where: str) -> list[Any]:
        return self.reading.hooks_of(lambda hook: where_defined(hook) == where)

    # --- what a trace came upon

    def warn(self, probe: StatementProbe) -> None:
        """Warn once about an effect that may be lost."""
        self._say_now("", probe.warning)

    def _say_now(self, refusal: str, warning: str) -> None:
        if refusal:
            raise CompileError(refusal)
        if warning not in self._said:
            self._said.add(warning)
            warn(warning, CompileWarning)

    def lift(self, code: CodeType | None = None) -> bool:
        """Replace calls of C functions, in one function or in all. Return False if there are none left."""
        found: list[tuple[FunctionType, Any]] = [
            (known.function, known.node) for known in self.reading.all_statements()
        ]
        lambdas = [frame for frame in self.reading.whole.frames if isinstance(frame.node, ast.Lambda)]
        found += [(frame.function, frame.node) for frame in lambdas if isinstance(frame.owner, FunctionType)]
        before = len(self._lifted)
        for function, node in found:
            if id(function) not in self._lifted and (code is None or _is_code_of(function, code)):
                lifting = Lifting(function, node)
                if lifting.finds_any:
                    self._lifted[id(function)] = function, node, lifting
        if len(self._lifted) == before:
            return False
        self._plan()
        return True

    def _lift_draws(self) -> None:
        """Replace calls that draw from generators of Python and NumPy, in the functions that make them."""
        self.draws = self.draws or bool(self._missed.drawing)
        for frame in self._missed.drawing:
            function: Any = frame.function
            if id(function) not in self._lifted:
                self._lifted[id(function)] = function, frame.node, Lifting(function, frame.node)
        self._missed.drawing.clear()

    def move_what_needed(self, error: NeedsValue) -> bool:
        """Move the statement that needed a value, or a piece of it. Return False if it can't be moved."""
        if not self.reading.is_complete:
            return False
        way, trace = [], error.__traceback__
        while trace is not None:
            way.append((trace.tb_frame.f_code, trace.tb_lineno))
            trace = trace.tb_next
        every = self.reading.all_statements()
        on_the_way = [
            (statements, line) for code, line in way for statements in every if _is_code_of(statements.function, code)
        ]
        self._mover.reconsider()
        for statements, line in on_the_way:
            paths = statements.at_line(line)
            if not self.reading.is_of_step(statements.function):  # what needs a value is not work
                paths = [path for path in paths if id(path[-1]) not in self._forms.work]
                paths.sort(key=lambda path: is_piece(path[-1]))
            if any(self._mover.want(statements, path) for path in paths):
                self._plan()
                return True
        if any(id(path[-1]) in self._forms.work for known, line in on_the_way for path in known.at_line(line)):
            return False
        for statements, line in on_the_way:
            around = [(each, path) for path in statements.at_line(line) for each in path]
            here = [each for each, path in around if each.lineno == line or each is path[-1]]
            if [each for each in here if self._take_apart(statements, each)]:
                self._plan()
                return True
        return False

    def _take_apart(self, statements: Statements, statement: ast.stmt) -> bool:
        """Replace a statement by its pieces; return whether it has any."""
        if not take_apart(statements.node, statement):
            return False
        self._mover.unkeep(id(statement))
        self.reading.replace_statements(statements.node)
        return True


def _code_in(reading: Reading) -> set[int]:
    """Return the ids of the code that is rewritten if these hooks are split."""
    return {id(frame.function.__code__) for frame in reading.frames if may_be_rewritten(frame)}


def _is_code_of(function: FunctionType, code: CodeType) -> bool:
    own = function.__code__
    of_own = own.co_firstlineno, own.co_filename, own.co_name
    return of_own == (code.co_firstlineno, code.co_filename, code.co_name)
