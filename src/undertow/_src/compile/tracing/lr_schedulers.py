"""Schedulers that step inside a compiled step. They compute with Python's numbers, so they run on the host.

Before each call they step, in the step's order, on the options that the optimizers will have by then. The new options are
inputs of the program, and are set when it has run. The state of the schedulers needs no guard. Numbers that Python's and
NumPy's generators draw are made at the same time; see `python_draws`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from undertow._src.base import tracer
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.places import put_back
from undertow._src.compile.plan import Retrace
from undertow._src.compile.tracing.optimizer_options import Options
from undertow._src.compile.tracing.python_draws import Drawing, DrawStep, Generators
from undertow._src.compile.tracing.symbolic_scalars import (
    Known,
    Number,
    Of,
    ScalarGuards,
    SymbolicScalar,
    Values,
    asks_undertow,
    of,
    scalar_for,
)
from undertow.optim.lr_scheduler import LRScheduler


class SchedulerStep(NamedTuple):
    """A step of a scheduler, which leaves new options."""

    options: list[Of]  # at that point
    scheduler: Any
    step: Callable[[], Any]
    called: bool  # whether the optimizer has stepped before, which a scheduler checks
    place: int  # of the first new number among all of them

    def numbers(self, schedules: Schedules, numbers: Values) -> list[float]:
        """Step for the coming call, and return the options."""
        options = schedules.options
        options.put([each(numbers) for each in self.options])
        schedules.remember(self.scheduler)
        with _opt_called(self.scheduler.optimizer, self.called):
            self.step()
        return options.in_groups()


class Schedules:
    """The steps of schedulers in a step, and the draws between them."""

    def __init__(self, options: Options, known: Known, hosted: list[Any], plain: bool, generators: Generators) -> None:
        self.options, self.known, self.hosted = options, known, {id(each) for each in hosted}
        self.plain = plain  # whether all numbers are compared by value
        self.made: list[SchedulerStep | DrawStep] = []
        self.generators = generators  # of Python and NumPy
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
        first = self.first_number()
        options.put([number.value if isinstance(number, SymbolicScalar) else number for number in held])
        called = getattr(scheduler.optimizer, "_opt_called", False)
        made = SchedulerStep(
            [of(number) for number in held], scheduler, lambda: step(scheduler, *args, **kwargs), called,
            len(options.extra),
        )  # fmt: skip
        self.made.append(made)
        self.remember(scheduler)
        tracer.current = None  # it computes with plain numbers
        try:
            step(scheduler, *args, **kwargs)
        finally:
            tracer.current = trace
        left = options.in_groups()
        options.extra += left
        traced = trace.host_inputs.add(Scheduled(self, made.place, len(left)), np.array(left)).value
        inputs = [Number(value, traced[place], _item(first + place), self.known) for place, value in enumerate(left)]
        options.put([*map(float, inputs)] if self.plain else inputs)

    def draw(self, trace: Any, made: Drawing) -> SymbolicScalar:
        """Return a number that is drawn in each call."""
        options, place = self.options, self.first_number()
        step = DrawStep(made, len(options.extra))
        self.made.append(step)
        value = self.generators.draw(made, [])
        options.extra.append(value)
        traced = trace.host_inputs.add(Scheduled(self, step.place, 1), np.array([value], np.float64)).value[0]
        return scalar_for(value, traced, _item(place), self.known, True)

    def first_number(self) -> int:
        """Return the place of the next number among the program's numbers."""
        options = self.options
        return len(options.places) + len(options.counts) + len(options.counters.places) + len(options.extra)

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

    def remember(self, scheduler: Any) -> None:
        """Keep the state of a scheduler before the step."""
        attributes = vars(scheduler)
        if not any(held is attributes for held, _ in self._before):
            self._before.append((attributes, dict(attributes)))
            for inner in getattr(scheduler, "_schedulers", ()):
                self.remember(inner)

    def rewind(self) -> None:
        """Restore schedulers and generators to their state before the step."""
        self.generators.rewind()
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
            for made in self.made:
                numbers += made.numbers(self, numbers)
                self._turns.append([(attributes, dict(attributes)) for attributes, _ in self._before])
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
        self.generators.end()
        self._before, self._turns, self.options.extra, self._ready = [], [], [], False
        return result

    def segment(self, place: int, count: int) -> Any:
        """Return the options that a scheduler's step has set, or a number that was drawn."""
        return np.array(self.options.extra[place : place + count], np.float64)


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
    """An input: numbers of the call that a step of a scheduler leaves, or that are drawn."""

    def __init__(self, schedules: Schedules, place: int, count: int) -> None:
        self.schedules, self.place, self.count = schedules, place, count

    def again(self, drawn: list[Any]) -> Any:
        """Return the numbers for this call."""
        return self.schedules.segment(self.place, self.count)


def _item(place: int) -> Of:
    return lambda values: values[place]
