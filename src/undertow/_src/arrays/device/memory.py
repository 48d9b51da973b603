"""The buffers of arrays on a JAX device, or inside a program that is being traced.

JAX arrays are immutable; a tensor's buffer is written to, and its views see the write. A `DeviceMemory` models that. It
refers to a `Buffer`, which holds the current value; a view of it knows how to take its part of the value and how to put
a new part back. `DeviceArray` adds NumPy's interface.
"""

from __future__ import annotations

import importlib
import sys
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar, Self
from weakref import ref

import numpy as np

from undertow._src.base import tracer
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device
from undertow._src.base.modes import slow_path
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.numpy.order import outer_to_inner
from undertow._src.arrays.numpy.shape import contiguous_strides

Value = Any  # a jax.Array, or a tracer


def import_jax() -> Any:
    """Return JAX. Importing it draws from NumPy's generator, whose state is restored."""
    if "jax" not in sys.modules:
        state = np.random.get_state(legacy=False)
        try:
            importlib.import_module("jax")
        finally:
            np.random.set_state(state)
    return sys.modules["jax"]


@cache
def jax_module(name: str) -> Any:
    """Return a module of `arrays/jax`; JAX is imported at the first use."""
    import_jax()
    return importlib.import_module(f"undertow._src.arrays.jax.{name}")


def jax_namespace() -> Any:
    """Return the functions on JAX arrays."""
    return jax_module("namespace")


def call_jax(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a JAX function: outside of a trace, as a program of its own."""
    if tracer.current is not None:
        return tracer.current.call_jax(function, args, kwargs)
    return jax_module("eager_programs").call(function, args, kwargs)


class Deferred:
    """Calls of programs on a device that are put off, see `arrays/jax/deferred.py`."""

    calls: ClassVar[int] = 0  # how many there are

    @staticmethod
    def run() -> None:
        """Make them now."""
        if Deferred.calls:
            jax_module("deferred").run()


def computing_now() -> AbstractContextManager[None]:
    """Make JAX compute inside the block, even during a trace."""
    return import_jax().ensure_compile_time_eval()


def known_value(array: Any) -> Value:
    """Return a value that is the same in every call of the traced program."""
    jax = import_jax()
    with computing_now():
        if isinstance(array, (np.ndarray, np.generic)):
            return jax.device_put(array)  # `asarray` compiles a program for each shape, which takes XLA 50 ms
        return jax.numpy.asarray(array)


class Target:
    """The kind of device for which a program is being traced."""

    platform: str | None = None  # JAX's name for it, "cpu" or "gpu"; None: the arrays' own device, or JAX's default


class Compiling:
    """A block in which a thread compiles: meanwhile tensors of the step hold tracers instead of values."""

    current: ClassVar[Compiling | None] = None

    def __enter__(self) -> Self:
        self._thread, self._done = threading.get_ident(), threading.Event()
        self._taken: set[int] = set()  # ids of tensors
        self._before, Compiling.current = Compiling.current, self
        slow_path.enter()
        return self

    def __exit__(self, *exc: Any) -> None:
        slow_path.leave()
        Compiling.current = self._before
        self._done.set()

    def is_elsewhere(self) -> bool:
        """Whether a different thread is compiling."""
        return threading.get_ident() != self._thread

    def take(self, tensors: Iterable[Any]) -> None:
        """Declare which tensors are about to hold tracers, in time for threads that are reading them."""
        self._taken = {id(tensor) for tensor in tensors}
        if threading.active_count() > 1:
            time.sleep(_NOTICE)

    def wait_for(self, tensors: list[Any]) -> None:
        """Wait until this thread's tensors no longer hold tracers, before computing with them."""
        held = any(id(tensor) in self._taken or isinstance(tensor._array, DeviceMemory) for tensor in tensors)
        if held and not self._done.wait(_PATIENCE):
            raise RuntimeError(
                "undertow.compile: this thread uses a tensor of a step that another thread is compiling, and has waited "
                f"for {_PATIENCE} s. If the step waits for this thread, let this thread finish before the step begins."
            )


_PATIENCE = 60  # seconds
_NOTICE = 0.01


class TraceAborted:
    """An exception that ends a trace, even if the step's own code handles it: the trace remembers it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        TraceAborted.note(self)

    @staticmethod
    def note(error: Any) -> None:
        """Let the current trace remember an exception."""
        if tracer.current is not None and tracer.current.is_here():
            tracer.current.note_abort(error)


class NeedsValue(TraceAborted, RuntimeError):
    """Python needs a number that is known only when the compiled program runs."""

    asked = ""  # the purpose and the line, without the cure
    line: tuple[str, int] | None = None  # the file and the line


class Range:
    """The least and the greatest integer of a value that came from the host, where they cost nothing to find out.

    On a device, a check of labels or indices would wait for everything that was computed before.
    """

    __slots__ = ("_value", "least", "greatest")

    def __init__(self, value: Value, array: np.ndarray[Any, Any]) -> None:
        self._value = ref(value)
        self.least, self.greatest = int(array.min()), int(array.max())

    def is_of(self, buffer: Buffer) -> bool:
        """Whether a buffer still has that value."""
        return buffer.host is None and buffer.value is self._value()


class Buffer:
    """A buffer: its current value, and how often it was written to."""

    any_made: ClassVar[bool] = False  # whether there has ever been one

    __slots__ = ("value", "writes", "host", "device", "strides", "range", "__weakref__")

    def __init__(self, value: Value, device: Device | None) -> None:
        self.value = value
        self.writes = 0
        if not Buffer.any_made:  # a write to a class empties Python's caches of its attributes
            Buffer.any_made = True
        self.device: Device | None = None  # the tensor's nominal device; None: its value's
        self.host: np.ndarray[Any, Any] | None = None  # the buffer as a NumPy array, once one has been requested
        self.strides: tuple[int, ...] | None = None  # eager strides, if not contiguous
        self.range: Range | None = None
        if device is not None:
            self.live_on(device)

    def live_on(self, device: Device) -> None:
        """Set the tensor's nominal device. While any tensor is not on the CPU, every op takes its general path."""
        self.device = device
        if device is not cpu:
            self.__class__ = BufferOffCpu
            slow_path.enter()


class BufferOffCpu(Buffer):
    """A buffer that is not on the CPU."""

    __slots__ = ()

    def __del__(self) -> None:
        slow_path.leave()

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffer, (self.value, self.device)  # a copy counts as this one does


class DeviceMemory:
    """A buffer on a device, or a view of one."""

    __slots__ = ("buffer", "_parent", "_take", "_put", "_seen", "_part", "shape", "dtype", "__weakref__")

    _parent: Self | None
    _take: Callable[[Any, Value], Value]
    _put: Callable[[Any, Value, Value], Value]
    _seen: int
    _part: Value

    def __init__(self, value: Value, device: Device | None = None) -> None:
        self.buffer = Buffer(value, device)
        self._parent = None
        self.shape: tuple[int, ...] = tuple(value.shape)
        self.dtype: np.dtype[Any] = np.dtype(value.dtype)
        if tracer.current is not None:
            tracer.current.note_buffer(self.buffer)

    def like(self, value: Value) -> Self:
        """Return a new buffer like this one, with a value of the same kind."""
        array = object.__new__(type(self))
        array.buffer, array._parent = Buffer(value, self.buffer.device), None
        array.shape, array.dtype = self.shape, self.dtype
        if self._parent is None:
            array.buffer.strides = self.buffer.strides
        else:
            array.lie_with(self.strides)
        return array

    def forget_shape(self) -> None:
        """Compute the shape on demand, so that it is known whether it was ever read."""
        if self._parent is None and not self.forgets_shape():
            del self.shape

    def forgets_shape(self) -> bool:
        """Whether the shape has not been read."""
        try:
            vars(DeviceMemory)["shape"].__get__(self)  # the slot itself: reading the attribute would compute the shape
        except AttributeError:
            return True
        return False

    def view_by(
        self, take: Callable[[Any, Value], Value], put: Callable[[Any, Value, Value], Value], part: Value = None
    ) -> Self:
        """Return a view: `take(xp, whole)` is its value, `put(xp, whole, part)` the whole with the part replaced.

        Its current value is `part`, if that has been computed, or that of an array which nothing else holds.
        """
        view = object.__new__(type(self))
        view.buffer, view._parent, view._take, view._put = self.buffer, self, take, put
        view._seen, view._part = self.buffer.writes + tracer.epoch, self._taken(take) if part is None else part
        view.shape, view.dtype = tuple(view._part.shape), np.dtype(view._part.dtype)
        return view

    @property
    def value(self) -> Value:
        """The current value."""
        if self._parent is None:
            buffer = self.buffer
            return (
                buffer.value
                if buffer.host is None or tracer.current is not None
                else jax_namespace().constant(buffer.host)
            )
        now = self.buffer.writes + tracer.epoch
        if self._seen != now or self.buffer.host is not None:  # to which NumPy writes without counting
            self._part, self._seen = self._parent._taken(self._take), now
        elif type(self._part) is type(self):
            self._part = self._part.value
        return self._part

    def _taken(self, take: Callable[[Any, Value], Value]) -> Value:
        """Return a part of the value; of a known value, a known one."""
        if self.is_known():
            return known_value(take(numpy_xp, np.asarray(self.value)))
        return take(jax_namespace(), self.value)

    def is_known(self) -> bool:
        """Whether it holds few integers that are the same in every call of the traced program."""
        return tracer.current is not None and may_be_known(self) and tracer.current.is_constant(self.value)

    def write(self, value: Value) -> None:
        """Replace the value, in the array's own shape and dtype."""
        import jax.numpy as jnp

        with self.writing(value):
            if not hasattr(value, "aval"):  # no array of JAX
                value = jax_namespace().constant(value) if type(value) is np.ndarray else jnp.asarray(value)
            if value.dtype != self.dtype:
                if value.dtype.kind == "c" and self.dtype.kind != "c":
                    value = value.real
                value = value.astype(self.dtype)
            if value.shape != self.shape:
                value = jnp.broadcast_to(value, self.shape)
            self._replace(value)

    def writing(self, *values: Any) -> Any:
        """Write values inside the block: a known buffer stays known if they are known, too."""
        if not self.is_known() or not all(map(tracer.running().is_constant, values)):
            return nullcontext()
        return computing_now()

    def _replace(self, value: Value) -> None:
        if tracer.current is not None:
            tracer.current.note_write(self)
        if self._parent is not None:
            self._parent._replace(self._put(jax_namespace(), self._parent.value, value))
            return
        buffer = self.buffer
        buffer.writes += 1
        if buffer.host is None or tracer.current is not None:
            buffer.value = value
        else:
            buffer.host[...] = value

    def on_host(self) -> np.ndarray[Any, Any]:
        """Move the buffer to the host, as a NumPy array, for good; its views become views of that array."""
        if tracer.current is not None:
            tracer.current.refuse_value(self)
        if self._parent is not None:
            whole: Any = self._parent.on_host()
            part: Any = self._take(numpy_xp, np.asarray(whole))
            if type(whole) is not np.ndarray:  # memory that is on a device, nominally
                part = part.view(type(whole))
                part.nominal = whole.nominal
            return part
        if self.buffer.host is None:
            self.buffer.host = laid_out(self.buffer.value, self.buffer.strides)
        return self.buffer.host

    @property
    def device(self) -> Device:
        """The tensor's nominal device. What a step makes while it is traced is on the device of its program."""
        device = self.buffer.device
        if device is None and tracer.current is not None:
            device = tracer.current.device if self.buffer.host is None else cpu
        return device_of(self.buffer.value) if device is None else device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides that eager code on the CPU would have: a device lays arrays out as it likes."""
        if self.may_lie_otherwise():
            return self.lying().strides
        return contiguous_strides(self.shape, self.dtype.itemsize)

    def lying(self) -> np.ndarray[Any, Any]:
        """Return a host array with the strides that this one would have there: draws are made in their order."""
        if self._parent is not None:
            return self._take(numpy_xp, self._parent.lying())
        if self.buffer.host is not None:
            return self.buffer.host
        if (strides := self.buffer.strides) is None:
            return np.empty(self.shape, self.dtype)
        return _empty(self.shape, self.dtype, strides)

    def lie_with(self, strides: tuple[int, ...] | None) -> None:
        """Record the eager strides of a new buffer; None, or negative ones: contiguous."""
        if strides is None or min(strides, default=0) < 0 or 0 in self.shape:
            self.buffer.strides = None
        else:
            self.buffer.strides = None if strides == contiguous_strides(self.shape, self.dtype.itemsize) else strides

    def lie_in_order_of(self, axes: Iterable[int]) -> None:
        """Record the eager order of a new buffer's axes, the largest stride first."""
        dims = list(axes)
        lead = contiguous_strides([self.shape[dim] for dim in dims], self.dtype.itemsize)
        self.lie_with(tuple([lead[dims.index(dim)] for dim in range(len(dims))]))

    def lies_in_order(self) -> bool:
        """Whether it would be contiguous on the host."""
        return not self.may_lie_otherwise() or self.lying().flags.c_contiguous

    def repeats(self) -> bool:
        """Whether one memory location would be several elements on the host, as in an expanded tensor."""
        return self.may_lie_otherwise() and any(
            step == 0 and n > 1 for step, n in zip(self.lying().strides, self.shape, strict=True)
        )

    def overlaps_itself(self) -> bool:
        """Whether a write to one element may change a different element."""
        if not self.may_lie_otherwise() or 0 in self.shape:
            return False
        reached = self.dtype.itemsize
        steps = zip(map(abs, self.lying().strides), self.shape, strict=True)
        for step, n in sorted((step, n) for step, n in steps if n > 1):
            if step < reached:
                return True
            reached += step * (n - 1)
        return False

    def may_lie_otherwise(self) -> bool:
        """Whether its strides may differ from contiguous ones: it is a view, or has the layout of its operands."""
        return not (self._parent is None and self.buffer.strides is None and self.buffer.host is None)

    def lie_like(self, operands: Iterable[Any]) -> None:
        """Record the layout of an elementwise function's result, given its operands."""
        if len(self.shape) < 2 or all(not isinstance(each, DeviceMemory) or each.lies_in_order() for each in operands):
            return
        lying = [each.lying() if isinstance(each, DeviceMemory) else each for each in operands]
        self.lie_in_order_of(outer_to_inner(self.shape, lying))


def laid_out(value: Any, strides: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
    """Copy a value to the host, with given strides if it is not to be contiguous."""
    if strides is None:
        return np.array(value)
    array = _empty(value.shape, value.dtype, strides)
    array[...] = value
    return array


def _empty(shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    size = sum([step * (n - 1) for step, n in zip(strides, shape) if n]) + dtype.itemsize
    return np.ndarray(shape, dtype, np.empty(size, np.uint8), strides=strides)


def device_of(value: Any) -> Device:
    """Return the device of a JAX array."""
    there = next(iter(value.devices())) if hasattr(value, "devices") else None
    return cpu if there is None or there.platform == "cpu" else Device("cuda", there.id)


FEW = 1 << 20


def may_be_known(array: Any) -> bool:
    """Whether a trace may compute with an array's values, if known."""
    return array.dtype.kind in "iubf" and array.size <= FEW
