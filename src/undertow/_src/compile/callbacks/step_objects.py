"""Objects that a step makes and a hook on the host changes: the step's own code may not look at them in the trace.

The trace leaves such an object as the step has made it, and each call changes a mirror of it. So code in the program would
find it without the changes. The code is found by names: those of attributes and variables that lead to the object.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from functools import partial
from inspect import CO_OPTIMIZED
from types import CellType, FrameType, FunctionType, MethodType
from typing import Any

from undertow._src.base.sites import outside
from undertow._src.compile.callbacks.containers import CONTAINERS
from undertow._src.compile.callbacks.containers import contents_of as parts_of
from undertow._src.compile.callbacks.hook_facts import acts_on_own
from undertow._src.compile.effects import Effect, Effects
from undertow._src.compile.guards.places import contents_of
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.splitting.step_reading import ANY
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.results import FIXED


class ChangedObjects:
    """The objects of the step that hooks on the host change, with the names by which code finds what they change."""

    def __init__(self) -> None:
        self._changes: list[tuple[Any, Effect, set[str]]] = []

    def note(self, hook: Any, effects: Effects) -> None:
        """Record what a hook, or a statement of one, changes."""
        trace = running_trace()
        for effect in effects.effects:
            if effect.target is not None and not acts_on_own(effect) and trace.is_of_step(effect.target):
                self._changes.append((hook, effect, _names_of(effect, hook, trace.before.seen)))

    def found_by(self, splitter: EffectSplitter | None) -> list[tuple[Any, Effect]]:
        """Return the changes that the step's own code may look for in the trace."""
        loaded = splitter.loads_left() if splitter is not None and self._changes else set[str]()
        return [
            (hook, effect) for hook, effect, names in self._changes if ANY in loaded or not names.isdisjoint(loaded)
        ]


def _names_of(effect: Effect, hook: Any, known: Container[int]) -> set[str]:
    """Return the names by which code finds what an effect changes: `.name` for an attribute. `known` objects, by id, do not
    lead to it.
    """
    target = effect.target
    if not isinstance(target, (*CONTAINERS, CellType)):
        names = {part.key for part in parts_of(target)} if effect.attribute is None else {effect.attribute}
        return {f".{name}" for name in names}
    found, seen = set[str](), set[tuple[int, str]]()
    waiting = [("", hook), *_variables()]
    while waiting:
        name, value = waiting.pop()
        if value is target:
            found.add(name)
        if (id(value), name) not in seen and id(value) not in known:
            seen.add((id(value), name))
            waiting += _parts(name, value)
    return found - {""}


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
