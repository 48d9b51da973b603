"""The memory of arrays on a JAX device, or inside a program that is being compiled.

JAX's arrays never change. A tensor's memory does: it is written to, and its views see it. A `DeviceMemory` is that memory.
It stands on a `Buffer`, which holds the present value; a view of it knows how to take its part of the value and how to put
a new part back. `DeviceArray` adds NumPy's manners.
"""

from __future__ import annotations

import importlib
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from undertow._src.base import tracer
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device
from undertow._src.base.modes import slow_path
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.numpy.order import outer_to_inner
from undertow._src.arrays.numpy.shape import contiguous_strides

Value = Any  # a jax.Array, or what stands for one in a trace


@cache
def jax_namespace() -> Any:
    """Return the words on JAX's arrays; JAX is loaded when they are first needed."""
    return importlib.import_module("undertow._src.arrays.jax.namespace")


def call_jax(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of JAX's."""
    return function(*args, **kwargs) if tracer.current is None else tracer.current.call_jax(function, args, kwargs)


def computing_now() -> AbstractContextManager[None]:
    """Return a block in which JAX computes, also while it traces."""
    import jax

    return jax.ensure_compile_time_eval()


def known_value(array: Any) -> Value:
    """Return a value that is the same in every call of the program that is being traced."""
    import jax

    with computing_now():
        if isinstance(array, (np.ndarray, np.generic)):
            return jax.device_put(array)  # `asarray` is a program for each shape, which takes XLA 50 ms
        return jax.numpy.asarray(array)


class Target:
    """For which kind of device a program is being traced."""

    platform: str | None = None  # JAX's word for it, "cpu" or "gpu"; None: where the arrays are, or JAX's default


class Compiling:
    """A block in which a thread compiles: for the time being, tensors of the step hold stand-ins for their values."""

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
        """Whether another thread than this one does it."""
        return threading.get_ident() != self._thread

    def take(self, tensors: Iterable[Any]) -> None:
        """Says which tensors are about to hold stand-ins, in time for threads that are just reading them."""
        self._taken = {id(tensor) for tensor in tensors}
        if threading.active_count() > 1:
            time.sleep(_NOTICE)

    def wait_for(self, tensors: list[Any]) -> None:
        """Wait until the stand-ins that this thread's tensors may hold are gone: it is about to compute with them."""
        held = any(id(tensor) in self._taken or isinstance(tensor._array, DeviceMemory) for tensor in tensors)
        if held and not self._done.wait(_PATIENCE):
            raise RuntimeError(
                "undertow.compile: this thread computes with a tensor of a step that another thread is compiling, and has "
                f"waited for {_PATIENCE} s. If the step waits for this thread, let it compute that before the step."
            )


_PATIENCE = 60  # seconds
_NOTICE = 0.01


class TraceAborted:
    """An exception that ends a trace, also where code of the step's own handles it: the trace remembers it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        TraceAborted.note(self)

    @staticmethod
    def note(error: Any) -> None:
        """Lets the trace that is on remember an exception."""
        if tracer.current is not None and tracer.current.is_here():
            tracer.current.note_abort(error)


class NeedsValue(TraceAborted, RuntimeError):
    """Python asked for a number that is known only when the compiled program runs."""

    asked = ""  # for what, and where, without the cure
    line: tuple[str, int] | None = None  # where: the file and the line of it


class Buffer:
    """One memory: its present value, and how often it was written to."""

    any_made: ClassVar[bool] = False  # whether there has ever been one

    __slots__ = ("value", "writes", "host", "device", "strides", "__weakref__")

    def __init__(self, value: Value, device: Device | None) -> None:
        self.value = value
        self.writes = 0
        Buffer.any_made = True
        self.device: Device | None = None  # where the tensor is said to live; None: wherever its value is
        self.host: np.ndarray[Any, Any] | None = None  # the memory itself, once somebody has looked at it
        self.strides: tuple[int, ...] | None = None  # of the memory of eager code, if it is not in order
        if device is not None:
            self.live_on(device)

    def live_on(self, device: Device) -> None:
        """Says where the tensor lives. While there is one that is not on the CPU, every op takes its general path."""
        self.device = device
        if device is not cpu:
            self.__class__ = BufferOffCpu
            slow_path.enter()


class BufferOffCpu(Buffer):
    """A memory that is not on the CPU."""

    __slots__ = ()

    def __del__(self) -> None:
        slow_path.leave()

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffer, (self.value, self.device)  # a copy is counted as this one was


class DeviceMemory:
    """A memory on a device, or a view of one."""

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
        """Return a memory of its own that looks as this one does, and holds a value of its kind."""
        array = object.__new__(type(self))
        array.buffer, array._parent = Buffer(value, self.buffer.device), None
        array.shape, array.dtype = self.shape, self.dtype
        if self._parent is None:
            array.buffer.strides = self.buffer.strides
        else:
            array.lie_with(self.strides)
        return array

    def forget_shape(self) -> None:
        """Has the shape found out when somebody asks for it, so that it can be told whether anybody has."""
        if self._parent is None and not self.forgets_shape():
            del self.shape

    def forgets_shape(self) -> bool:
        """Whether nobody has asked."""
        try:
            vars(DeviceMemory)["shape"].__get__(self)  # the slot, where asking would find the shape out
        except AttributeError:
            return True
        return False

    def view_by(self, take: Callable[[Any, Value], Value], put: Callable[[Any, Value, Value], Value]) -> Self:
        """Return a view: `take(xp, whole)` is its value, `put(xp, whole, part)` the whole with the part replaced."""
        view = object.__new__(type(self))
        view.buffer, view._parent, view._take, view._put = self.buffer, self, take, put
        view._seen, view._part = self.buffer.writes + tracer.epoch, self._taken(take)
        view.shape, view.dtype = tuple(view._part.shape), np.dtype(view._part.dtype)
        return view

    @property
    def value(self) -> Value:
        """The present value."""
        if self._parent is None:
            buffer = self.buffer
            return (
                buffer.value
                if buffer.host is None or tracer.current is not None
                else jax_namespace().constant(buffer.host)
            )
        now = self.buffer.writes + tracer.epoch
        if self._seen != now:
            self._part, self._seen = self._parent._taken(self._take), now
        return self._part

    def _taken(self, take: Callable[[Any, Value], Value]) -> Value:
        """Return a part of the value; of a known value, a known one."""
        if self.is_known():
            return known_value(take(numpy_xp, np.asarray(self.value)))
        return take(jax_namespace(), self.value)

    def is_known(self) -> bool:
        """Whether it holds few whole numbers that are the same in every call of the program that is being traced."""
        return tracer.current is not None and may_be_known(self) and tracer.current.is_constant(self.value)

    def write(self, value: Value) -> None:
        """Replace the value, in the array's own shape and dtype."""
        import jax.numpy as jnp

        with self.writing(value):
            value = jax_namespace().constant(value) if type(value) is np.ndarray else jnp.asarray(value)
            if value.dtype != self.dtype:
                if value.dtype.kind == "c" and self.dtype.kind != "c":
                    value = value.real
                value = value.astype(self.dtype)
            if value.shape != self.shape:
                value = jnp.broadcast_to(value, self.shape)
            self._replace(value)

    def writing(self, *values: Any) -> Any:
        """Return a block in which values are written: what is known stays so, if they are known, too."""
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
        """Return the memory as a NumPy array, from now on; its views are views of it."""
        if tracer.current is not None:
            tracer.current.refuse_value(self)
        if self._parent is not None:
            return self._take(numpy_xp, self._parent.on_host())
        if self.buffer.host is None:
            self.buffer.host = laid_out(self.buffer.value, self.buffer.strides)
        return self.buffer.host

    @property
    def device(self) -> Device:
        """Where the tensor is said to live. What a step makes while it is traced lives where its program will run."""
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
        """Those of memory in order: a device lays arrays out as it likes. On the CPU they are those of eager code."""
        if self.lies_as_on_host():
            return self.lying().strides
        return contiguous_strides(self.shape, self.dtype.itemsize)

    def lying(self) -> np.ndarray[Any, Any]:
        """Return an array that lies in memory as this one would on the host: draws are made in that order."""
        if self._parent is not None:
            return self._take(numpy_xp, self._parent.lying())
        if self.buffer.host is not None:
            return self.buffer.host
        if (strides := self.buffer.strides) is None:
            return np.empty(self.shape, self.dtype)
        return _empty(self.shape, self.dtype, strides)

    def lie_with(self, strides: tuple[int, ...] | None) -> None:
        """Note with which strides a new memory would lie on the host; None, or some below 0: in order."""
        if strides is None or min(strides, default=0) < 0 or 0 in self.shape:
            self.buffer.strides = None
        else:
            self.buffer.strides = None if strides == contiguous_strides(self.shape, self.dtype.itemsize) else strides

    def lie_in_order_of(self, axes: Iterable[int]) -> None:
        """Note in which order the axes of a new memory would lie on the host, the widest first."""
        dims = list(axes)
        lead = contiguous_strides([self.shape[dim] for dim in dims], self.dtype.itemsize)
        self.lie_with(tuple([lead[dims.index(dim)] for dim in range(len(dims))]))

    def lies_in_order(self) -> bool:
        """Whether it would be contiguous on the host."""
        return self._is_new_in_order() or self.lying().flags.c_contiguous

    def repeats(self) -> bool:
        """Whether one place in the host's memory would be several elements, as in an expanded tensor."""
        return not self._is_new_in_order() and any(
            step == 0 and n > 1 for step, n in zip(self.lying().strides, self.shape, strict=True)
        )

    def overlaps_itself(self) -> bool:
        """Whether a write to one element may be one to another element, too."""
        if self._is_new_in_order():
            return False
        reached = self.dtype.itemsize
        steps = zip(map(abs, self.lying().strides), self.shape, strict=True)
        for step, n in sorted((step, n) for step, n in steps if n > 1):
            if step < reached:
                return True
            reached += step * (n - 1)
        return False

    def lies_as_on_host(self) -> bool:
        """Whether its strides may differ from those of memory in order: those of a CPU program and its results may."""
        if self._is_new_in_order():
            return False
        return (self.device if tracer.current is None else tracer.current.device) is cpu

    def _is_new_in_order(self) -> bool:
        return self._parent is None and self.buffer.strides is None and self.buffer.host is None

    def lie_like(self, operands: Iterable[Any]) -> None:
        """Note in which order the result of an elementwise function would lie in memory, given its operands."""
        if len(self.shape) < 2 or all(not isinstance(each, DeviceMemory) or each.lies_in_order() for each in operands):
            return
        lying = [each.lying() if isinstance(each, DeviceMemory) else each for each in operands]
        self.lie_in_order_of(outer_to_inner(self.shape, lying))


def laid_out(value: Any, strides: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
    """Copy a value to the host's memory, with strides if it is not to lie in order."""
    if strides is None:
        return np.array(value)
    array = _empty(value.shape, value.dtype, strides)
    array[...] = value
    return array


def _empty(shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    size = sum([step * (n - 1) for step, n in zip(strides, shape) if n]) + dtype.itemsize
    return np.ndarray(shape, dtype, np.empty(size, np.uint8), strides=strides)


def device_of(value: Any) -> Device:
    """Where a JAX array is."""
    there = next(iter(value.devices())) if hasattr(value, "devices") else None
    return cpu if there is None or there.platform == "cpu" else Device("cuda", there.id)


FEW = 1 << 20


def may_be_known(array: Any) -> bool:
    """Whether an array is one that a trace computes with, if it can."""
    return array.dtype.kind in "iubf" and array.size <= FEW
