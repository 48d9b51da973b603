"""Schedulers that step inside a compiled step. They compute with Python's numbers, so they run on the host.

Before each call they step, in the step's order, on the options that the optimizers will have by then. The new options are
inputs of the program, and are set when it has run. The state of the schedulers needs no guard.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from undertow._src.base import tracer
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import put_back
from undertow._src.compile.plan import Retrace
from undertow._src.compile.tracing.optimizer_options import Options
from undertow._src.compile.tracing.symbolic_scalars import (
    Known,
    Number,
    Of,
    ScalarGuards,
    SymbolicScalar,
    asks_undertow,
    of,
)
from undertow.optim.lr_scheduler import LRScheduler


class Schedules:
    """The steps of schedulers in a step."""

    def __init__(self, options: Options, known: Known, hosted: list[Any], plain: bool) -> None:
        self.options, self.known, self.hosted = options, known, {id(each) for each in hosted}
        self.plain = plain  # whether all numbers are compared by value
        # The options at that point; the scheduler; its step.
        self.made: list[tuple[list[Of], Any, Callable[[], Any]]] = []
        self._opt_called: list[bool] = []  # whether the optimizer has stepped before, which a scheduler checks
        self._before: list[tuple[dict[str, Any], dict[str, Any]]] = []  # attributes of schedulers
        self._ready = False
        self._turns: list[list[tuple[dict[str, Any], dict[str, Any]]]] = []  # attributes after each of the steps
        self._left: list[tuple[dict[str, Any], float]] = []  # options that a step on the host will change

    # --- while the step is traced

    def trace(self, trace: Any, scheduler: Any, step: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Step for the numbers of the first call, and make inputs of the results."""
        options = self.options
        held = options.in_groups()
        for number in held:
            if isinstance(number, SymbolicScalar) and number.is_asked:  # the scheduler steps before the program
                raise number.refusal()
        first = len(options.places) + len(options.counts) + len(options.counters.places) + len(options.extra)
        options.put([number.value if isinstance(number, SymbolicScalar) else number for number in held])
        self.made.append(([of(number) for number in held], scheduler, lambda: step(scheduler, *args, **kwargs)))
        self._opt_called.append(getattr(scheduler.optimizer, "_opt_called", False))
        self._remember(scheduler)
        tracer.current = None  # it computes with plain numbers
        try:
            step(scheduler, *args, **kwargs)
        finally:
            tracer.current = trace
        left = options.in_groups()
        options.extra += left
        traced = trace.host_inputs.add(Scheduled(self, len(self.made) - 1), np.array(left)).value
        inputs = [Number(value, traced[place], _item(first + place), self.known) for place, value in enumerate(left)]
        options.put([*map(float, inputs)] if self.plain else inputs)

    @contextmanager
    def watched(self, trace: Any) -> Iterator[None]:
        """Trace again if traced code reads the state of a scheduler that steps on the host: it has to be guarded."""

        def get(scheduler: Any, name: str) -> Any:
            is_traced = id(scheduler) in self.hosted and trace.is_here() and tracer.current is trace
            if is_traced and name not in ("step", "__class__") and not asks_undertow(sys._getframe(1)):
                plan = trace.placer.plan
                plan.schedulers_read[id(scheduler)] = plan.choices
                raise Retrace
            return object.__getattribute__(scheduler, name)

        if self.hosted:
            LRScheduler.__getattribute__ = get  # type: ignore[method-assign]
        try:
            yield
        finally:
            if self.hosted:
                del LRScheduler.__getattribute__

    def leave_to_host(self, scheduler: Any, step: str) -> None:
        """Record a scheduler that depends on a value: it steps after the program, which must not need the result."""
        for group in scheduler.optimizer.param_groups:
            self._left.append((group, group["lr"]))
            group["lr"] = Late(group["lr"], step)

    def take_back(self) -> None:
        """Restore such options at the end of the trace: the program does not contain the change."""
        for group, number in reversed(self._left):
            group["lr"] = number
        self._left.clear()

    def _remember(self, scheduler: Any) -> None:
        attributes = vars(scheduler)
        if not any(held is attributes for held, _ in self._before):
            self._before.append((attributes, dict(attributes)))
            for inner in getattr(scheduler, "_schedulers", ()):
                self._remember(inner)

    def rewind(self) -> None:
        """Restore schedulers to their state before the step."""
        for attributes, held in self._before:
            attributes.clear()
            attributes.update(held)
        self._before, self._turns, self.options.extra, self._ready = [], [], [], False

    # --- calls

    def prepare(self) -> None:
        """Make the steps for the coming call."""
        options = self.options
        before = options.in_groups()
        numbers = options.values()
        count = len(numbers)
        self._ready = True
        try:
            for (follows, scheduler, step), called in zip(self.made, self._opt_called):
                options.put([each(numbers) for each in follows])
                self._remember(scheduler)
                with _opt_called(scheduler.optimizer, called):
                    step()
                self._turns.append([(attributes, dict(attributes)) for attributes, _ in self._before])
                numbers += options.in_groups()
        except BaseException:
            self.rewind()
            raise
        finally:
            options.put(before)
        options.extra = numbers[count:]

    @contextmanager
    def at_turn(self, turn: int) -> Iterator[None]:
        """Return a block in which schedulers have the state after this number of steps."""
        now = [(attributes, dict(attributes)) for attributes, _ in self._before]
        for attributes, held in self._turns[turn - 1] if turn else self._before:
            attributes.update(held)
        try:
            yield
        finally:
            for attributes, held in now:
                attributes.update(held)

    def fit(self, scalar_guards: ScalarGuards) -> bool:
        """Return whether a program's comparisons have the same outcomes in the coming call."""
        self.prepare()
        if scalar_guards.hold(self.options.values() + self.options.extra):
            return True
        self.rewind()
        return False

    def around(self, run: Callable[[list[Any]], Any], arguments: list[Any]) -> Any:
        """Return a block around a call of the program; if it fails, the schedulers have not stepped."""
        if not self._ready:
            self.prepare()
        try:
            result = run(arguments)
        except BaseException:
            self.rewind()
            raise
        self._before, self._turns, self.options.extra, self._ready = [], [], [], False
        return result

    def segment(self, place: int) -> Any:
        """Return the options that a scheduler's step has set."""
        count = len(self.options.places)
        return np.array(self.options.extra[place * count : (place + 1) * count])


@contextmanager
def _opt_called(optimizer: Any, called: bool) -> Iterator[None]:
    """Inside the block, an optimizer counts as stepped if it had stepped in the trace: the program will make its steps."""
    attributes = vars(optimizer)
    before = dict(attributes)
    attributes["_opt_called"] = called or before.get("_opt_called", False)
    try:
        yield
    finally:
        put_back(attributes, before)


class Late(Number):
    """An option whose value is known only when the program has run."""

    __slots__ = ("step",)

    step: str

    def __new__(cls, number: float, step: str) -> Late:
        late = float.__new__(cls, math.nan)
        late.value, late.of, late.step = number.value if isinstance(number, Number) else number, of(number), step
        return late

    def _refuse(self, *_: Any) -> Any:
        raise CompileError(
            f"undertow.compile: the step uses a learning rate that {self.step} may change, but that runs after the "
            "program, because it depends on a value. Make it the last statement of the step, or call it outside."
        )

    _combined = _changed = _answer = as_array = _refuse  # type: ignore[assignment]


class Scheduled:
    """An input that a scheduler's step leaves in the options."""

    def __init__(self, schedules: Schedules, place: int) -> None:
        self.schedules, self.place = schedules, place

    def again(self, drawn: list[Any]) -> Any:
        """Return the numbers for this call."""
        return self.schedules.segment(self.place)


def _item(place: int) -> Of:
    return lambda values: values[place]
