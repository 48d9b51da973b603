"""Inputs of a program that are computed on the host before each call: random draws, steps of schedulers, functions in C.

Each call draws anew, from the same streams and in the same order, so that the numbers are those that eager code would draw.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import numpy as np
from jax.experimental import io_callback

from undertow._src.arrays.device.array import DeviceArray, wrapped
from undertow._src.compile.errors import CompileError
from undertow._src.compile.tracing.decisions import Decisions
from undertow._src.compile.tracing.symbolic_scalars import exactly
from undertow._src.random.generators import Generator, alive

if TYPE_CHECKING:
    from undertow._src.compile.tracing.trace import Trace


class HostInput(Protocol):
    """An input that each call computes on the host before the program runs, given those before it: a draw, a step count."""

    def again(self, drawn: list[Any]) -> Any: ...


class Draw:
    """A call of a random stream: which stream, which method, with which arguments. Draws, seeds, states taken and set."""

    __slots__ = ("stream", "method", "args", "kwargs")

    def __init__(self, stream: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.stream, self.method, self.args, self.kwargs = stream, method, args, kwargs

    def again(self, drawn: list[Any]) -> Any:
        """Return the same call, given what the calls before it gave."""
        args = [drawn[arg.place] if type(arg) is Earlier else arg for arg in self.args]
        return getattr(self.stream, self.method)(*args, **self.kwargs)


class Earlier(NamedTuple):
    """In the place of an argument: what an earlier call of a stream gave. So a state that was taken is set again."""

    place: int


def draw_inside(
    stream: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], raised: list[BaseException],
    decisions: Decisions,
) -> Any:  # fmt: skip
    """Return a call of a stream for which the program stops: what it draws depends on values, or comes after such
    a draw.
    """
    places = [place for place, arg in enumerate(args) if type(arg) is DeviceArray]

    def draw(values: Sequence[Any]) -> Any:
        given = list(args)
        for place, value in zip(places, values):
            given[place] = np.asarray(value)
        return getattr(stream, method)(*given, **kwargs)

    before = stream.get_state()
    tried = draw(
        [before if method == "set_state" else np.ones(args[place].shape, args[place].dtype) for place in places]
    )
    stream.set_state(before)
    if not isinstance(tried, (np.ndarray, tuple, type(None))):
        raise CompileError(f"undertow.compile: {method}() of a generator after a draw that depends on values")
    spec = jax.tree.map(lambda part: jax.ShapeDtypeStruct(part.shape, part.dtype), tried)
    count = len(decisions)

    def on_host(*values: Any) -> Any:
        try:
            if not raised and decisions.hold(values[:count]):  # else eager code would not have come here
                return draw(values[count:])
        except BaseException as error:
            raised.append(error)
        return jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), spec)

    operands = [*decisions.operands(), *[args[place].value for place in places]]
    return wrapped(io_callback(on_host, spec, *operands, ordered=True))


def draw_again(draws: list[HostInput]) -> list[Any]:
    """Return what all the calls give this time."""
    drawn: list[Any] = []
    for draw in draws:
        drawn.append(draw.again(drawn))
    return drawn


class TracedStream:
    """Stands in for a generator's stream during a trace: draws as it does, and makes inputs of what was drawn."""

    def __init__(self, stream: Any, inputs: HostInputs) -> None:
        self._stream, self._inputs = stream, inputs

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stream, name)
        if not callable(method) or not self._inputs.trace.is_here():  # another thread draws for itself
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            inputs, trace = self._inputs, self._inputs.trace
            args, kwargs = tuple(map(exactly, args)), {key: exactly(value) for key, value in kwargs.items()}
            inputs.streams[id(self._stream)] = self._stream
            sources = [inputs.earlier(arg) if type(arg) is DeviceArray else arg for arg in args]
            if inputs.inside or any(source is None and arg is not None for source, arg in zip(sources, args)):
                inputs.inside = trace.placer.calls.has_inside = True
                return draw_inside(self._stream, name, args, kwargs, trace.placer.calls.raised, trace.decisions)
            draw = Draw(self._stream, name, tuple(sources), kwargs)
            return inputs.add(draw, draw.again(inputs.first))

        return call

    # Draws whose distribution depends on values are made of plain ones, inside the program.

    def normal_each(self, mean: Any, std: Any, dtype: Any) -> Any:
        shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
        return (self.normal(math.prod(shape), dtype=dtype).reshape(shape) * std + mean).astype(dtype)

    def bernoulli_each(self, probabilities: Any, dtype: Any = None) -> Any:
        draw = self.uniform53 if probabilities.dtype == np.float64 else self.uniform24
        drawn = draw(probabilities.size).reshape(probabilities.shape)
        return (drawn < probabilities.astype(drawn.dtype)).astype(probabilities.dtype if dtype is None else dtype)


class HostInputs:
    """The inputs of a program that each call computes on the host, in the order of the step."""

    def __init__(self, trace: Trace) -> None:
        self.trace: Trace = weakref.proxy(trace)  # which has these
        self.all: list[HostInput] = []
        self.first: list[Any] = []  # what they gave during the trace
        self.inside = False  # whether the program stops for draws, because one depended on a value
        self.streams: dict[int, Any] = {}  # those that the step draws from, by id
        self._streams: list[tuple[Generator, Any]] = []
        self._before: list[Any] = []  # the states of the streams

    def __len__(self) -> int:
        return len(self.all)

    def __enter__(self) -> None:
        self._streams = [(generator, generator.stream) for generator in alive]
        self._before = [stream.get_state() for _, stream in self._streams]
        for generator, stream in self._streams:
            generator.stream = TracedStream(stream, self)  # type: ignore[assignment]

    def __exit__(self, *exc: object) -> None:
        for generator, stream in self._streams:
            generator.stream = stream

    def rewind(self) -> None:
        """Let random streams go on from where the trace began: each call draws for itself."""
        for (_, stream), state in zip(self._streams, self._before):
            stream.set_state(state)

    def add(self, made: HostInput, values: Any) -> Any:
        """Return arrays that stand for values in the trace; each call computes them anew."""
        place = len(self.all)
        self.all.append(made)
        self.first.append(values)
        if not isinstance(values, (np.ndarray, tuple)):
            return values
        parts = []
        for part, array in enumerate(values if isinstance(values, tuple) else (values,)):
            value = self.trace.memory.stand_in(array)
            self.trace.memory.inputs[id(value)] = (place, part if isinstance(values, tuple) else None)
            parts.append(DeviceArray(value))
        return tuple(parts) if isinstance(values, tuple) else parts[0]

    def earlier(self, array: DeviceArray) -> Earlier | None:
        """Which call of a stream gave an array, if one did."""
        source = self.trace.memory.inputs.get(id(array.value))
        return Earlier(source[0]) if isinstance(source, tuple) else None
