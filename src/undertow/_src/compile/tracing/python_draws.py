"""Numbers that a step draws from generators of Python and NumPy: `random.random()`, `np.random.beta(1, 1)`.

Each call draws them on the host before the program, in the step's order. They are inputs of the program like the numbers
that a step changes: comparisons with them are guarded (`if random.random() < 0.5` makes two programs). In the step's code,
calls by the name of such a method are replaced (see `recompiled_functions`), so that they draw in the trace as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from undertow._src.base import tracer
from undertow._src.base.sites import user_site
from undertow._src.compile.effects import Effect
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.reachability import GENERATORS
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.symbolic_scalars import LARGEST, SymbolicScalar, Values
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._src.compile.tracing.lr_schedulers import Schedules

# Methods whose result is one number, of a type that has a stand-in.
_OF_PYTHON = frozenset(
    "random uniform triangular betavariate expovariate gammavariate gauss lognormvariate normalvariate vonmisesvariate "
    "paretovariate weibullvariate randint randrange choice".split()
)
_OF_NUMPY = frozenset(
    "rand randn random random_sample ranf sample uniform beta normal standard_normal exponential standard_exponential "
    "gamma standard_gamma lognormal laplace logistic triangular binomial poisson geometric randint integers".split()
)
NAMES = _OF_PYTHON | _OF_NUMPY
_GLOBAL: tuple[Any, ...] = (random.random.__self__, np.random.rand.__self__)  # type: ignore[attr-defined]
_CURE = "draw random numbers with torch.rand and the like, or before the step, and pass them as arguments"


class Drawing(NamedTuple):
    """A draw: the generator, its method, and the arguments, which may be computed from a program's numbers."""

    generator: Any
    method: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def made(self, numbers: Values) -> Any:
        """Draw."""
        given = [each(numbers) if type(each) is _Follows else each for each in self.args]
        named = {key: each(numbers) if type(each) is _Follows else each for key, each in self.kwargs.items()}
        return self.method(*given, **named)


class _Follows:
    """An argument that is computed from the numbers of a call."""

    __slots__ = ("value", "of")

    def __init__(self, scalar: SymbolicScalar) -> None:
        self.value, self.of = scalar.value, scalar.of

    def __call__(self, numbers: Values) -> Any:
        return self.of(numbers) if numbers else self.value


class DrawStep(NamedTuple):
    """A draw among the steps of schedulers; see `Schedules`."""

    drawing: Drawing
    place: int  # of the number among all of them

    def numbers(self, schedules: Schedules, numbers: Values) -> list[float]:
        """Draw for the coming call."""
        return [schedules.generators.draw(self.drawing, numbers)]


class Generators:
    """The generators of Python and NumPy from which a step draws, with their states before it and after its last draw."""

    def __init__(self, known: list[Any]) -> None:
        self._before: dict[int, tuple[Any, Any]] = {}
        self._after: dict[int, Any] = {}
        self._at_start = {id(each): (each, _state_of(each)) for each in (*_GLOBAL, *known)}  # of the trace

    def draw(self, drawing: Drawing, numbers: Values) -> Any:
        """Make a draw, and return the number."""
        generator = drawing.generator
        now = _state_of(generator)
        if id(generator) not in self._before:
            self._before[id(generator)] = generator, now
            self._after[id(generator)] = self._at_start.get(id(generator), (generator, now))[1]
        self._refuse_others(generator, now)
        try:
            return drawing.made(numbers)
        finally:
            self._after[id(generator)] = _state_of(generator)

    def rewind(self) -> None:
        """Restore the states before the step, after a trace of all generators that the step can reach."""
        for generator, state in (*self._before.values(), *self._at_start.values()):
            if not _same(state, _state_of(generator)):
                _restore(generator, state)
        self._forget()

    def end(self) -> None:
        """End a call or a trace: nothing else may have drawn in it."""
        try:
            for generator, _ in self._before.values():
                self._refuse_others(generator, _state_of(generator))
        finally:
            self._forget()

    def end_trace(self) -> None:
        """Refuse draws of other code in the trace, and restore the states before it: the step leaves no change of them."""
        for generator, state in self._at_start.values():
            self._after.setdefault(id(generator), state)
            self._refuse_others(generator, _state_of(generator))
        self.rewind()

    def _forget(self) -> None:
        self._before, self._after, self._at_start = {}, {}, {}

    def _refuse_others(self, generator: Any, now: Any) -> None:
        if not _same(now, self._after[id(generator)]):
            raise CompileError(
                f"undertow.compile: the step draws from {_shown(generator)}, and so does code in the same call that "
                "undertow can't rewrite: a hook or a statement that runs on the host, a function without source, or a draw "
                "by another name. Write draws as `random.random()`, give other code a generator of its own, or "
                f"{_CURE}."
            )


class Drawer:
    """Replaces methods of generators where the step's code calls them."""

    wraps = True  # it takes what is called

    def __call__(self, called: Any) -> Any:
        generator = getattr(called, "__self__", None)
        if tracer.current is None or not isinstance(generator, GENERATORS) or not tracer.current.is_here():
            return called
        name = getattr(called, "__name__", "")

        def draw(*args: Any, **kwargs: Any) -> Any:
            trace = running_trace()
            is_known = any(generator is each for each in _GLOBAL) or id(generator) in trace.before.seen
            names = _OF_PYTHON if isinstance(generator, random.Random) else _OF_NUMPY
            if name not in names or type(generator) not in GENERATORS or not is_known or trace.schedules is None:
                raise _refusal(name, generator, "which a program can't repeat")
            if (
                name == "choice"
                and isinstance(generator, random.Random)
                and len(args) == 1
                and not kwargs
                and _is_sequence(args[0])
            ):
                chosen = _drawn(generator, "_randbelow", generator._randbelow, (len(args[0]),), {})  # type: ignore[attr-defined]
                return args[0][index(chosen)]  # type: ignore[arg-type]
            return _drawn(generator, name, called, args, kwargs)

        return draw


drawer = Drawer()


def is_draw(effect: Effect) -> bool:
    """Return whether an effect is a draw of one number, for which the step's code can be rewritten."""
    name = effect.what.removesuffix("`").rpartition(".")[2]
    return effect.field == "random" and effect.what.startswith("calls `") and name in NAMES


def _drawn(generator: Any, name: str, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SymbolicScalar:
    given = [_argument(each, name, generator) for each in args]
    named = {key: _argument(each, name, generator) for key, each in kwargs.items()}
    trace = running_trace()
    if trace.placer.plan.exact_types:
        raise _refusal(name, generator, "and compares types of numbers")
    drawing = Drawing(generator, method, tuple(given), named)
    state = _state_of(generator)
    try:
        value = drawing.made([])  # by which the type of the result is found out
    finally:
        _restore(generator, state)
    if type(value) not in (int, float) or abs(value) > LARGEST:
        raise _refusal(
            name, generator, f"with a {type(value).__name__} as result, where a program takes single numbers"
        )
    return trace.schedules.draw(trace, drawing)


def _argument(value: Any, name: str, generator: Any) -> Any:
    if isinstance(value, TensorCore) or (isinstance(value, SymbolicScalar) and value.is_asked):
        raise _refusal(name, generator, "with an argument that only the running program knows")
    return _Follows(value) if isinstance(value, SymbolicScalar) else value


def _is_sequence(value: Any) -> bool:
    return type(value) in (list, tuple, range, str)


def _refusal(name: str, generator: Any, why: str) -> CompileError:
    site = user_site()
    where = "" if site is None else f" ({site})"
    return CompileError(
        f"undertow.compile: the step calls `{name}` of {_shown(generator)}{where}, {why}. Instead, {_CURE}."
    )


def _shown(generator: Any) -> str:
    names = ("Python's generator", "NumPy's generator")
    return next((name for name, each in zip(names, _GLOBAL) if each is generator), f"a {type(generator).__name__}")


def _state_of(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.bit_generator.state


def _restore(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool((a == b).all())
    if isinstance(a, dict):
        return all(_same(each, b[key]) for key, each in a.items())
    if isinstance(a, tuple) and len(a) < 16:
        return all(map(_same, a, b))
    return bool(a == b)
