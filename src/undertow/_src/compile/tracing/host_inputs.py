"""Inputs that each call computes on the host before the program: random draws, steps of schedulers, C functions.

Each call draws from the same streams in the same order, so the numbers are those of eager mode.
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
from undertow._src.compile.tracing.collectives import Collectives
from undertow._src.compile.tracing.data_dependent_branches import Decisions
from undertow._src.compile.tracing.symbolic_scalars import exactly
from undertow._src.random.cuda_stream import CudaStream
from undertow._src.random.generators import Generator, alive, cuda_generators
from undertow._src.types.devices import cpu

if TYPE_CHECKING:
    from undertow._src.compile.tracing.trace_state import Trace


class HostInput(Protocol):
    """An input that each call computes on the host before the program, given the earlier ones: a draw, a step count."""

    def again(self, drawn: list[Any]) -> Any: ...


class Draw:
    """A call of a random stream's method: a draw, a seed, reading or setting the state."""

    __slots__ = ("stream", "method", "args", "kwargs")

    def __init__(self, stream: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.stream, self.method, self.args, self.kwargs = stream, method, args, kwargs

    def again(self, drawn: list[Any]) -> Any:
        """Repeat the call, given the results of the calls before it."""
        args = [drawn[arg.place] if type(arg) is Earlier else arg for arg in self.args]
        return getattr(self.stream, self.method)(*args, **self.kwargs)


class Earlier(NamedTuple):
    """Stands for an argument that is the result of an earlier call, such as a state that is set again."""

    place: int


def draw_inside(
    stream: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], raised: list[BaseException],
    decisions: Decisions,
) -> Any:  # fmt: skip
    """Return a call of a stream that the program waits for: its draws depend on values, or come after such
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
        raise CompileError(
            f"undertow.compile: the step calls {method}() of a generator after a draw whose count depends on values "
            "(multinomial, gamma, Poisson). Call it before that draw, or outside of the step."
        )
    spec = jax.tree.map(lambda part: jax.ShapeDtypeStruct(part.shape, part.dtype), tried)
    count = len(decisions)

    def on_host(*values: Any) -> Any:
        try:
            if not raised and decisions.hold(values[:count]):  # else eager code would not get here
                return draw(values[count:])
        except BaseException as error:
            raised.append(error)
        return jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), spec)

    operands = [*decisions.operands(), *[args[place].value for place in places]]
    return wrapped(io_callback(on_host, spec, *operands, ordered=True))


def draw_again(draws: list[HostInput]) -> list[Any]:
    """Repeat all calls and return their results."""
    drawn: list[Any] = []
    for draw in draws:
        drawn.append(draw.again(drawn))
    return drawn


class TracedStream:
    """Replaces a generator's stream during a trace: draws like it, and turns the draws into inputs."""

    def __init__(self, stream: Any, inputs: HostInputs) -> None:
        self._stream, self._inputs = stream, inputs

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stream, name)
        if not callable(method) or not self._inputs.trace.is_here():  # other threads draw eagerly
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

    # Draws whose distribution depends on values are computed from plain draws, inside the program.

    def normal_each(self, mean: Any, std: Any, dtype: Any) -> Any:
        shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
        return (self.normal(math.prod(shape), dtype=dtype).reshape(shape) * std + mean).astype(dtype)

    def bernoulli_each(self, probabilities: Any, dtype: Any = None) -> Any:
        draw = self.uniform53 if probabilities.dtype == np.float64 else self.uniform24
        drawn = draw(probabilities.size).reshape(probabilities.shape)
        return (drawn < probabilities.astype(drawn.dtype)).astype(probabilities.dtype if dtype is None else dtype)


class Reservation:
    """Consecutive draws of a GPU's stream, which the program makes itself: from a seed and an offset, its only input.

    Each call reads them off the stream and advances it for all of these draws.
    """

    def __init__(self, stream: CudaStream) -> None:
        self.stream, self.words, self.draws = stream, 0, 0

    def again(self, drawn: list[Any]) -> Any:
        return self.stream.reserve(self.words)


class TracedCudaStream(CudaStream):
    """Stands in for the stream of a GPU during a trace: the program computes its draws from the stream's state."""

    def __init__(self, stream: CudaStream, inputs: HostInputs) -> None:
        self._calls, self._stream, self._inputs = TracedStream(stream, inputs), stream, inputs
        self.device, self.lock = stream.device, stream.lock
        self._open: tuple[Reservation, DeviceArray] | None = None  # the last reservation, and its input

    def reserve(self, words: int) -> Any:
        inputs = self._inputs
        if not inputs.trace.is_here():
            return self._stream.reserve(words)
        if inputs.inside:
            return self._calls.reserve(words)
        if self._open is None:
            made = Reservation(self._stream)
            inputs.streams[id(self._stream)] = self._stream
            self._open = made, inputs.add(made, made.again([]))
        reservation, state = self._open
        value = state.value + np.array([0, reservation.words], np.uint64)
        reservation.words += -(-words // 4) * 4
        reservation.draws += 1
        self._stream.reserve(words)
        return DeviceArray(value)

    @property
    def initial_seed(self) -> int:
        return self._stream.initial_seed

    @property
    def offset(self) -> int:
        return self._stream.offset


def _noted(name: str) -> Any:
    """Return a method of a traced stream that each call of the program repeats on the host."""

    def method(self: TracedCudaStream, *args: Any, **kwargs: Any) -> Any:
        self._open = None
        return getattr(self._calls, name)(*args, **kwargs)

    return method


for _name in ("seed", "get_state", "set_state", "set_offset", "gamma", "dirichlet", "poisson", "binomial"):
    setattr(TracedCudaStream, _name, _noted(_name))


class HostInputs:
    """The inputs of a program that each call computes on the host, in the order of the step."""

    def __init__(self, trace: Trace) -> None:
        self.trace: Trace = weakref.proxy(trace)  # which has these
        self.all: list[HostInput] = []
        self.first: list[Any] = []  # their values during the trace
        self.inside = False  # whether the program waits for draws, because one depended on a value
        self.streams: dict[int, Any] = {}  # those that the step draws from, by id
        self._streams: list[tuple[Generator, Any]] = []
        self._before: list[Any] = []  # the states of the streams
        self.collectives = Collectives(self.trace)

    def __len__(self) -> int:
        return len(self.all)

    def draws(self) -> int:
        """Return the number of the step's draws, on the host or in the program."""
        return sum([made.draws if type(made) is Reservation else type(made) is Draw for made in self.all])

    def __enter__(self) -> None:
        if self.trace.device.type == "cuda":
            cuda_generators()  # made before, so that they are traced
        self._streams = [(generator, generator.stream) for generator in alive]
        self._before = [stream.get_state() for _, stream in self._streams]
        for generator, stream in self._streams:
            traced = TracedCudaStream if isinstance(stream, CudaStream) else TracedStream
            generator.stream = traced(stream, self)  # type: ignore[assignment]

    def __exit__(self, *exc: object) -> None:
        for generator, stream in self._streams:
            generator.stream = stream

    def rewind(self) -> None:
        """Restore random streams to their states before the trace, because each call draws."""
        for (_, stream), state in zip(self._streams, self._before):
            stream.set_state(state)

    def add(self, made: HostInput, values: Any) -> Any:
        """Return arrays that stand for values in the trace, which each call computes."""
        place = len(self.all)
        self.all.append(made)
        self.first.append(values)
        if not isinstance(values, (np.ndarray, tuple)):
            return values
        parts = []
        for part, array in enumerate(values if isinstance(values, tuple) else (values,)):
            value = self.trace.memory.stand_in(array)
            self.trace.memory.inputs[id(value)] = (place, part if isinstance(values, tuple) else None)
            parts.append(DeviceArray(value, None if self.trace.device is cpu else cpu))
        return tuple(parts) if isinstance(values, tuple) else parts[0]

    def earlier(self, array: DeviceArray) -> Earlier | None:
        """Return the call of a stream that returned an array, if any."""
        source = self.trace.memory.inputs.get(id(array.value))
        return Earlier(source[0]) if isinstance(source, tuple) else None
