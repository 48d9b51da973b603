"""Calls of programs on a device that are put off, and then run together as one program.

A dispatch costs the host more than most operations cost a GPU. The results of a formula that has run before have known
shapes, so its next calls only note what they compute. The notes are run when a value is needed, when an optimizer steps,
or when there are many. A sequence of calls that has occurred a few times becomes one program, in which a barrier stands
between the calls: XLA does not fuse across it, so that each call rounds as if it ran by itself.

Threads share the queue, so who runs it need not be who put the calls off. An error belongs to the results of the call
that failed, and to those computed from them; it is raised where one of these is read, and nowhere else.

NOTE values. JAX's arrays never change, and what the host gives is copied; so it makes no difference when a call runs.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Protocol
from weakref import ref

import jax
import numpy as np
from jax import lax

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer, BufferOffCpu, Compiling, Deferred, computing_now
from undertow._src.arrays.target import options_for
from undertow._src.base import tracer
from undertow._src.base.modes import slow_path
from undertow._src.types.devices import device as Device

SMALL = 1 << 20  # elements: a larger array takes a GPU longer than its dispatch takes the host
MANY = 48  # calls that are put off at most
_SEEN = 3  # times that a sequence of calls occurs before it becomes a program
_PROGRAMS = 4  # of a sequence; the last one returns all results
_MOST = 512  # sequences that are remembered

Spec = tuple[tuple[int, ...], "np.dtype[Any]"]
_Steps = tuple[tuple["Callee", tuple[int, ...]], ...]  # programs, and where each finds its operands


class Callee(Protocol):
    """A program whose calls may be put off."""

    jitted: Callable[..., Sequence[Any]]  # the program by itself
    platform: str

    def traced(self, *arrays: Any) -> Sequence[Any]:
        """Return its results inside another program."""


class Place:
    """A result of a call: where to find its value, and the buffers that wait for it."""

    __slots__ = ("buffers", "call", "error", "number", "value")

    def __init__(self, call: Call, number: int) -> None:
        self.call: Call | None = call  # None: it has run
        self.number = number  # among the results of the call
        self.buffers: list[Callable[[], Buffer | None]] = []
        self.value: Any = None
        self.error: Exception | None = None  # why there is no value

    def read(self) -> Any:
        """Return the value of a call that has run; raise a new exception if the call has failed."""
        if self.error is not None:
            raise _like(self.error)
        return self.value

    def is_wanted(self) -> bool:
        """Whether a buffer still waits for it."""
        for each in self.buffers:
            buffer = each()
            if buffer is not None and type(buffer) is DeferredBuffer and _value.__get__(buffer) is self:
                return True
        return False

    def fill(self, value: Any) -> None:
        """Give the value to the buffers that wait for it."""
        self.call, self.value, self.error = None, value, None
        for each in self.buffers:
            buffer = each()
            if buffer is not None and type(buffer) is DeferredBuffer and _value.__get__(buffer) is self:
                _value.__set__(buffer, value)  # first: threads read ordinary buffers without the lock
                buffer.__class__ = BufferOffCpu  # type: ignore[assignment]

    def fail(self, error: Exception) -> None:
        """Note why there is no value."""
        self.call, self.error = None, error


def _like(error: Exception) -> Exception:
    """Return a copy of an exception: raised again, the same one would gather tracebacks, and keep their frames alive."""
    try:
        same = copy.copy(error)
    except Exception:  # its class takes other arguments
        same = error
    return same.with_traceback(None) if type(same) is type(error) else error.with_traceback(None)


class DeferredBuffer(BufferOffCpu):
    """A buffer whose value has not been computed; its `value` holds a `Place`. Once it is read, it is an ordinary one."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        run()
        value = _value.__get__(self)
        return value.read() if type(value) is Place else value  # a place: its call has failed

    @value.setter
    def value(self, value: Any) -> None:
        self.__class__ = BufferOffCpu  # type: ignore[assignment]
        self.value = value


_value: Any = vars(Buffer)["value"]  # the slot itself
_OFF_CPU = (BufferOffCpu, DeferredBuffer)


class Call:
    """A call that was put off: of which program, with what, for which results."""

    __slots__ = ("callee", "number", "operands", "places")

    def __init__(self, callee: Callee, number: int, operands: tuple[int, ...]) -> None:
        self.callee, self.number = callee, number
        self.operands = operands  # places among the arrays from outside; or -1 - the number of an earlier result
        self.places: list[Place] = []


class _Queue:
    """The calls that have been put off, in their order."""

    def __init__(self) -> None:
        self.device: Device | None = None
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.calls: list[Call] = []
        self.results: list[Place] = []  # of all calls, in a row
        self.given: list[Any] = []  # arrays from outside
        self._known: dict[int, int] = {}  # places in `given`, by the ids of arrays
        Deferred.calls = 0

    def resume(self, calls: list[Call], results: list[Place], given: list[Any]) -> None:
        """Put calls back that were not made."""
        self.calls, self.results, self.given = calls, results, given
        self._known = {id(value): place for place, value in enumerate(given)}
        Deferred.calls = len(calls)

    def operand(self, value: Any) -> int:
        """Return where a call finds an operand."""
        if type(value) is Place:
            if value.call is not None:
                return -1 - (value.call.number + value.number)
            value = value.read()
        place = self._known.get(id(value))
        if place is None:
            place = self._known[id(value)] = len(self.given)
            self.given.append(value)
        return place


_queue = _Queue()
_lock = threading.RLock()  # a flush may free buffers, whose `__del__` may run anything
_sequences: dict[Any, _Sequence] = {}


def put_off(callee: Callee, operands: Sequence[Any], results: Sequence[Spec], device: Device) -> list[DeviceArray]:
    """Return arrays for the results of a call that is made later."""
    with _lock:
        if _queue.device is not device or len(_queue.calls) >= MANY:
            run()
            _queue.device = device
        values = [_unread(each) for each in operands]
        call = _note(callee, values, len(results))
        return [_waiting(place, spec, device) for place, spec in zip(call.places, results, strict=True)]


def run_last(callee: Callee, operands: Sequence[Any], n_results: int) -> list[Any]:
    """Make a call together with all that have been put off; return its results."""
    with _lock:
        if len(_queue.calls) >= MANY:
            run()
        call = _note(callee, [_unread(each) for each in operands], n_results)
        run(call)
        return [place.read() for place in call.places]


def again(array: DeviceArray) -> DeviceArray | None:
    """Return a new buffer for the value of an array, if that has not been computed."""
    with _lock:
        place = _place_of(array)
        if place is None or array.buffer.device is None:
            return None
        return _waiting(place, (array.shape, array.dtype), array.buffer.device)


def write(array: DeviceArray, value: DeviceArray) -> bool:
    """Write a value that has not been computed to a whole buffer; False if it has been, or does not fit as it is."""
    with _lock:
        buffer, place = array.buffer, _place_of(value)
        if place is None or array._parent is not None or buffer.host is not None or type(buffer) not in _OFF_CPU:
            return False
        if (array.shape, array.dtype, buffer.device) != (value.shape, value.dtype, value.buffer.device):
            return False
        buffer.writes += 1
        buffer.__class__ = DeferredBuffer
        _value.__set__(buffer, place)
        place.buffers.append(ref(buffer))
        return True


def _note(callee: Callee, values: list[Any], n_results: int) -> Call:
    call = Call(callee, len(_queue.results), tuple([_queue.operand(value) for value in values]))
    call.places = [Place(call, number) for number in range(n_results)]
    _queue.calls.append(call)
    _queue.results += call.places
    Deferred.calls = len(_queue.calls)
    return call


def _unread(operand: Any) -> Any:
    """Return an operand's value, or the place of the value that it waits for."""
    if type(operand) is not DeviceArray:
        return operand.copy() if isinstance(operand, np.ndarray) else operand
    place = _place_of(operand)
    return operand.value if place is None else place


def _place_of(array: DeviceArray) -> Place | None:
    buffer: Any = array.buffer
    if array._parent is not None:
        part = array._part
        if type(part) is not DeviceArray or array._seen != buffer.writes + tracer.epoch or buffer.host is not None:
            return None
        buffer = part.buffer
    place = _value.__get__(buffer) if type(buffer) is DeferredBuffer else None
    return None if place is None or place.call is None else place


def _waiting(place: Place, spec: Spec, device: Device) -> DeviceArray:
    """Return an array that waits for a result."""
    array = object.__new__(DeviceArray)
    array.buffer = buffer = Buffer(place, None)
    buffer.device = device
    buffer.__class__ = DeferredBuffer
    slow_path.enter()
    array._parent = None
    array.shape, array.dtype = spec
    place.buffers.append(ref(buffer))
    return array


def run(last: Call | None = None) -> None:
    """Make the calls that have been put off; keep the results of the last one. What fails is raised by `Place.read`."""
    with _lock:
        calls, results, given = _queue.calls, _queue.results, _queue.given
        if not calls:
            return
        _queue.clear()
        kept = tuple([nr for nr, place in enumerate(results) if place.call is last or place.is_wanted()])
        if not kept:
            return
        is_tracing = tracer.current is not None or Compiling.current is not None
        with computing_now() if is_tracing else nullcontext():
            try:
                sequence = _sequence(calls, kept)
                values = None if sequence is None else sequence.run(given)
                if sequence is None or values is None:
                    _run_each(calls, results, given)
                else:
                    for nr, value in zip(sequence.kept, values, strict=True):
                        results[nr].fill(value)
            except Exception as error:
                for place in results:
                    if place.call is not None:
                        place.fail(error.with_traceback(None))
            except BaseException:  # an interrupt: they can be made later
                _queue.resume(calls, results, given)
                raise


def _run_each(calls: list[Call], results: list[Place], given: list[Any]) -> None:
    """Make calls one by one; pass over those that need a result of one that has failed."""
    for call in calls:
        needed = [results[-1 - operand] for operand in call.operands if operand < 0]
        error = next((place.error for place in needed if place.error is not None), None)
        values: Sequence[Any] = ()
        if error is None:
            operands = [given[operand] if operand >= 0 else results[-1 - operand].value for operand in call.operands]
            try:
                values = call.callee.jitted(*operands)
            except Exception as failure:
                error = failure.with_traceback(None)
        if error is not None:
            for place in call.places:
                place.fail(error)
            continue
        for place, value in zip(call.places, values, strict=True):
            place.fill(value)


class _Sequence:
    """Calls that have occurred in this order."""

    def __init__(self, steps: _Steps) -> None:
        self.seen = 0  # how often
        self.kept: tuple[int, ...] = ()  # which results its program returns
        self._steps = steps
        self._program: Callable[..., Sequence[Any]] | None = None
        self._programs = 0

    def prepare(self, wanted: tuple[int, ...], n_results: int) -> None:
        """Make a program that returns these results, if there is none that does."""
        if self._program is None or not set(self.kept).issuperset(wanted):
            self._programs += 1
            kept = {*self.kept, *wanted} if self._programs < _PROGRAMS else range(n_results)
            self.kept = tuple(sorted(kept))
            self._program = _together(self._steps, self.kept)

    def run(self, given: list[Any]) -> Sequence[Any] | None:
        """Return the results; None if the program fails: what is wrong shows where the calls are made one by one."""
        assert self._program is not None
        try:
            return self._program(*given)
        except Exception:
            self.seen = -(10**9)
            return None


def _sequence(calls: list[Call], wanted: tuple[int, ...]) -> _Sequence | None:
    """Return a sequence of calls with a program for it; None if it has not occurred often enough.

    Which results are wanted may depend on when garbage is collected: a program for more of them does as well.
    """
    if len(calls) == 1:
        return None
    steps = tuple([(call.callee, call.operands) for call in calls])
    sequence = _sequences.get(steps)
    if sequence is None:
        sequence = _sequences[steps] = _Sequence(steps)
        if len(_sequences) > _MOST:
            del _sequences[next(iter(_sequences))]
    sequence.seen += 1
    if sequence.seen < _SEEN:
        return None
    sequence.prepare(wanted, sum([len(call.places) for call in calls]))
    return sequence


def _together(steps: _Steps, kept: tuple[int, ...]) -> Callable[..., Sequence[Any]]:
    """Return calls as one program, which returns some of their results."""

    def program(*given: Any) -> list[Any]:
        results: list[Any] = []
        for callee, operands in steps:
            arrays = [given[operand] if operand >= 0 else results[-1 - operand] for operand in operands]
            results += lax.optimization_barrier([*callee.traced(*arrays)])
        return [results[nr] for nr in kept]

    return jax.jit(program, compiler_options=options_for(steps[0][0].platform))
