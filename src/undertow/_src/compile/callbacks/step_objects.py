"""Objects that a step makes and a hook on the host changes: the step's own code may not look at them in the trace.

The trace leaves such an object as the step has made it, and each call changes a mirror of it. So code in the program would
find it without the changes. The code is found by names: those of attributes and variables that lead to the object.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterator
from dataclasses import is_dataclass
from functools import partial
from inspect import CO_OPTIMIZED
from types import CellType, FrameType, FunctionType, MethodType, SimpleNamespace
from typing import Any

from undertow._src.base.sites import outside
from undertow._src.compile.callbacks.containers import CONTAINERS
from undertow._src.compile.callbacks.containers import contents_of as parts_of
from undertow._src.compile.callbacks.hook_facts import acts_on_own
from undertow._src.compile.effects import Effect, Effects
from undertow._src.compile.effects.values import OPAQUE
from undertow._src.compile.guards.places import OfClass, Slots, contents_of
from undertow._src.compile.guards.snapshot import Snapshot
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.splitting.step_reading import ANY, OLDER, WITHOUT_NAMES
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.results import FIXED


class ChangedObjects:
    """The objects of the step that hooks on the host change, with the names by which code finds what they change."""

    def __init__(self) -> None:
        self._changes: list[tuple[Any, Effect, set[str], bool]] = []

    def note(self, hook: Any, effects: Effects, entry: Snapshot | None, of_step: bool = False) -> None:
        """Record what a hook, or a statement of one, changes. `entry` is the state before the trace.

        Of what a statement `of_step` itself changes, only what older objects lead to: the rest is known of its code.
        """
        trace = running_trace()
        for effect in effects.effects:
            if effect.target is None or acts_on_own(effect):
                continue
            if not trace.is_of_step(effect.target):
                names = {name for name, value in _variables() if value is effect.target}
                if names and not of_step:
                    self._changes.append((hook, effect, names & _lost_variables(), of_step))
            else:
                stored = [] if entry is None else [*_stored(entry)]
                roots = stored if of_step else [("", hook), *_variables(), *stored]
                self._changes.append((hook, effect, _names_of(effect, roots, trace.before.seen, of_step), of_step))

    def targets(self) -> list[Any]:
        """Return the objects that are changed."""
        return [effect.target for _, effect, _, _ in self._changes]

    def found_by(self, splitter: EffectSplitter | None) -> list[tuple[Any, Effect, bool]]:
        """Return the changes that the step's own code may look for in the trace, and whether they are its own, too."""
        loaded = splitter.loads_left() if splitter is not None and self._changes else set[str]()
        return [
            (hook, effect, of_step)
            for hook, effect, names, of_step in self._changes
            if names and (ANY in loaded or not names.isdisjoint(loaded))
        ]


def _lost_variables() -> set[str]:
    """Return the variables of the step whose values the analyzer has lost track of, so that it misses reads of them."""
    splitter = running_trace().placer.plan.splitter
    if splitter is None:
        return set()
    reading = splitter.reading
    variables = [reading.variables(known) for known in reading.all_statements()]
    return {name for each in variables for name, value in each.items() if OPAQUE in value}


def _names_of(effect: Effect, roots: list[tuple[str, Any]], known: Container[int], from_roots: bool) -> set[str]:
    """Return the names by which code finds what an effect changes: `.name` for an attribute. `known` objects, by id, do not
    lead to it. With `from_roots`, there are none if the roots do not, either.
    """
    target = effect.target
    found, seen, waiting, own = set[str](), set[tuple[int, str]](), [*roots], set[str]()
    if not isinstance(target, (*CONTAINERS, CellType)) and (effect.attribute is not None or parts_of(target)):
        names = {part.key for part in parts_of(target)} if effect.attribute is None else {effect.attribute}
        own = {f".{name}" for name in names} | _generated(target)
        waiting = waiting if from_roots else []
    while waiting:
        name, value = waiting.pop()
        if value is target:
            found.add(name)
        found |= _generated(value) if any(part.value is target for part in parts_of(value)) else set()
        if (id(value), name) not in seen and id(value) not in known:
            seen.add((id(value), name))
            waiting += _parts(name, value)
    if own:
        return own if found or not from_roots else set()
    return found - {""}


def _generated(value: Any) -> frozenset[str]:
    """Return the words of code that looks at all attributes of an object by methods that have no source."""
    return WITHOUT_NAMES if is_dataclass(value) or isinstance(value, SimpleNamespace) else frozenset()


def _stored(entry: Snapshot) -> Iterator[tuple[str, Any]]:
    """Yield what the step has stored in older objects and variables so far, with the names that lead there."""
    state = entry.state
    attributes = {id(held) for _, held in state.owners}
    holders = {id(holder): name for holder, name in (*state.cells, *state.lists, *state.maps)}
    held_in = [(id(value), name) for name, value in _variables()]
    for change in entry.changes():
        key, values = change.key, [*change.now] if isinstance(change.key, slice) else [change.now]
        if id(change.holder) in attributes or isinstance(change.holder, (Slots, OfClass)):
            names = [f".{key}", f"{OLDER}{key}"]
        elif id(change.holder) in holders:
            shown = re.sub(r"\[.*?\]", "", holders[id(change.holder)])
            last = re.sub(r".*(\.| )", r"\1", shown).strip()
            names = [last, last.replace(".", OLDER), *[name for value, name in held_in if value == id(change.holder)]]
        else:
            names = [f"{key}", f".{key}", f"{OLDER}{key}"]
        yield from [(name, value) for name in names for value in values]


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds, with the names that code uses to get at it."""
    if isinstance(value, FunctionType):
        yield from zip(value.__code__.co_freevars, value.__closure__ or ())
        yield from (("", each) for each in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()))
    elif isinstance(value, CellType):
        yield name, contents_of(value)
    elif isinstance(value, MethodType):
        yield from [(name, value.__self__), (name, value.__func__)]
    elif isinstance(value, partial):
        yield from [(name, each) for each in (value.func, *value.args, *value.keywords.values())]
    elif not isinstance(value, FIXED):
        yield from [(name if part.is_item else f".{part.key}", part.value) for part in parts_of(value)]


def _variables() -> list[tuple[str, Any]]:
    """Return the local variables of the functions of the step that are running."""
    found: list[tuple[str, Any]] = []
    frame: FrameType | None = outside(sys._getframe())
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("jax."):
        if frame.f_code.co_flags & CO_OPTIMIZED:  # a function's
            held = frame.f_locals
            found += held.items()
            if type(held) is dict:  # before Python 3.13, a copy that the frame keeps, with its tensors
                held.clear()
        frame = outside(frame.f_back)
    return found
