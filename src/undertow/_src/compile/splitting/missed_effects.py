"""Effects that a program would not repeat: which they are, and where to stop the trace or warn.

A step's Python code runs once, while it is traced. What it does besides tensor work happens on later calls only if it is
moved to the host; or if it changes something that guards watch, so that the next call compiles again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from undertow._src.base.sites import PACKAGE
from undertow._src.compile.cures import OTHERWISE, cure_of, is_elsewhere
from undertow._src.compile.effects import TOO_LARGE, Effect, Frame, Notes, Summary, purity
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.guards.places import OfClass, Slots
from undertow._src.compile.guards.walking import Walk
from undertow._src.compile.splitting.statement_probes import StatementProbe
from undertow._src.compile.splitting.statements import Statements
from undertow._src.compile.splitting.step_reading import StepReading
from undertow._src.compile.tracing.python_draws import is_draw


class GuardedPlaces:
    """The places that guards look at before each call."""

    def __init__(self, root: Any, reading: StepReading) -> None:
        walk = Walk()
        walk.follow(root, "step")
        reading.names_in_packages(walk)
        state = walk.found
        places = (*state.maps, *state.lists, *state.cells, *state.arrays)
        self._objects = {id(holder.owner if isinstance(holder, (OfClass, Slots)) else holder) for holder, _ in places}
        self._objects |= {id(group) for optimizer in state.optimizers for group in optimizer.param_groups}
        self._names = {(id(names), name) for names, name in state.globals}

    def __contains__(self, effect: Effect) -> bool:
        """Return whether a change is seen before the next call, which then compiles again."""
        target = effect.target
        if is_elsewhere(effect.field):
            return False
        if id(target) in self._objects or (id(target), effect.attribute) in self._names:
            return True
        return not isinstance(target, type) and id(instance_dict(target)) in self._objects


class MissedEffects:
    """Decide which effects should happen on each call, and would not."""

    def __init__(self, root: Any, reading: StepReading) -> None:
        self._root, self._reading = root, reading
        self.drawing: list[Frame] = []  # the functions that draw from generators of Python and NumPy
        self.look_again()

    def look_again(self) -> None:
        """Update the guarded places, after more code of packages has run."""
        self._guarded = GuardedPlaces(self._root, self._reading)

    def __contains__(self, effect: Effect) -> bool:
        """Return whether an effect would be missed."""
        if effect.field in ("own", "harmless") or effect.file.startswith(PACKAGE):
            return False
        in_package = purity.is_installed(effect.file)
        if in_package and effect.field == "unknown" and not effect.what.startswith("calls `"):
            return False  # the analyzer lost track of a value in a package, which is no sign of an effect
        if in_package and effect.attribute is not None and self._reading.coverage is not None:
            return effect not in self._guarded  # the package's own state is seldom visible from outside
        return effect.kind != "store" or effect not in self._guarded

    def is_lost(self, effect: Effect) -> bool:
        """Return whether an effect would be missed without being seen before the next call."""
        return effect in self and effect not in self._guarded

    def probes(self, rest: Summary, say: Callable[[str, str], None]) -> Iterator[StatementProbe]:
        """Yield probes at statements that a trace must not reach, or only with a warning.

        rest: the effects left in the program; say: is called with a refusal and a warning that belong to no statement.
        """
        here = {notes for _, notes in rest.reached}
        for frame, notes in rest.reached:
            for key in notes.effects:
                effect = rest.keyed[key]
                if not self.is_lost(effect):
                    continue
                refusal = warning = ""
                if is_draw(effect) and frame is not None and self._is_rewritten(frame):
                    self.drawing.append(frame)
                    continue
                if effect.field != "unknown":
                    refusal = (
                        f"undertow.compile: the step {effect}. That would happen when the step is compiled, and not on "
                        f"later calls. Instead, {cure_of(effect)}."
                    )
                elif effect.what.startswith(("calls `", TOO_LARGE)):
                    warning = (
                        f"the step {effect}, whose code undertow can't read. If that does more than compute with "
                        f"tensors, it happens when the step is compiled and not on later calls; then {OTHERWISE}."
                    )
                else:
                    continue  # the analyzer lost track of a value, which is no sign of an effect
                unknown = effect.target is None and effect.kind != "call"
                places = list(self._nearest(frame, notes, here, set()))
                for statements, statement in places:
                    for each in self._reading.of_same_code(statements):
                        yield StatementProbe(each, statement, effect.what, refusal, warning, unknown)
                if not places:  # the step is a lambda, in which there are no statements
                    say(refusal, warning)

    def _is_rewritten(self, frame: Frame) -> bool:
        """Return whether the code of a function can be rewritten."""
        if not isinstance(frame.owner, FunctionType):
            return False
        return isinstance(frame.node, ast.Lambda) or self._reading.statements(frame) is not None

    def _nearest(
        self, frame: Frame | None, notes: Notes, here: set[Notes], seen: set[Notes]
    ) -> Iterator[tuple[Statements, ast.stmt]]:
        """Yield the statement of some notes, if it can have a probe, or else those whose calls lead to it."""
        if frame is None or notes in seen:
            return
        seen.add(notes)
        statements = self._reading.statements_at(frame, notes)
        if statements is not None and notes.path:
            yield statements, notes.path[-1]
            return
        for caller, calling in self._reading.whole.callers[frame]:
            if calling in here:
                yield from self._nearest(caller, calling, here, seen)
