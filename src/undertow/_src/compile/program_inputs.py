"""The inputs of a program: where each call finds their values."""

from __future__ import annotations

import gc
from sys import getrefcount
from typing import Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.compile.lowering.donation import ALONE, a_copy
from undertow._src.compile.lowering.lowered import Lowered
from undertow._src.compile.tracing.capture import Capture
from undertow._src.compile.tracing.host_inputs import draw_again
from undertow._src.tensor.core import TensorCore


class NumberInput:
    """The numbers of optimizers and counters, as one array."""

    def __init__(self, capture: Capture, is_given_away: bool) -> None:
        self.options, self._guard = capture.inputs.options, capture.answers
        self._next = capture.next_numbers
        self._is_given_away = is_given_away
        self._jax_device = capture.inputs.jax_device
        self._last: list[float] | None = None
        self._array: Any = None

    def array(self) -> Any:
        """Return the array; a new one only if a number has changed."""
        numbers = self._guard.numbers()
        if numbers != self._last:
            self._last, self._array = numbers, np.array(numbers, np.float64)
        elif type(self._array) is np.ndarray:
            self._array = jax.device_put(self._array, self._jax_device)
        if self._is_given_away:
            self._last = None  # until `change` knows the next ones
        return self._array

    def of_call(self) -> list[float]:
        """Return the numbers of this call, after the schedulers' steps."""
        return self.options.values() + self.options.extra

    def change(self) -> None:
        """Change the numbers as the step does."""
        options = self.options
        if not (options.changes or options.counted or options.left):
            return
        numbers = self._guard.numbers()
        options.change(numbers)
        if self._next is not None and not options.changes:
            count = len(options.places)  # in the program: the host may have changed them since
            self._last = numbers[:count] + options.values()[count:]
            self._array = self._next.buffer.value


class ProgramInputs:
    """Gather the values that a call gives to a program."""

    def __init__(self, capture: Capture, lowered: Lowered) -> None:
        self._buffers = lowered.inputs
        self._given, self._uses_gradients = capture.inputs.given, lowered.uses_gradients
        self._draws = capture.trace.host_inputs.all
        self.numbers = NumberInput(capture, lowered.inputs.gives_numbers)
        self._jax_device = capture.inputs.jax_device
        self._lent: list[Buffer] = []  # during a call: buffers that something else also holds
        self._shared: list[tuple[Any, DeviceArray, Any]] = []  # tensors, arrays that others hold, and their values

    def arguments(self, arguments: list[Any]) -> list[Any]:
        """Return a call's arguments, with the gradients and the carried state that the program uses."""
        return self._given.and_gradients(arguments) if self._uses_gradients else arguments

    def shown(self, arguments: list[Any]) -> list[Any]:
        """Return the arguments of a call that callbacks may see."""
        return self._given.and_gradients(arguments[: self._given.count])

    def gather(self, arguments: list[Any]) -> list[Any]:
        """Return the values, in the order of the program's inputs."""
        buffers = self._buffers
        values = []
        for tensor, held, buffer in buffers.donated:
            if tensor._array is not held:
                self._bring(tensor, held, buffer)
            if buffer.host is not None:
                values.append(buffer.host)
            else:
                values.append(buffer.value if getrefcount(buffer.value) <= ALONE else a_copy(buffer.value))
        if buffers.pack is not None:
            for tensor, held, buffer in buffers.packed:
                if tensor._array is not held:
                    self._bring(tensor, held, buffer)
            values.append(buffers.pack.gathered())
        for donor in buffers.donors:
            values += donor.donate()
        for tensor, held, buffer in buffers.states:
            if tensor._array is not held:
                self._bring(tensor, held, buffer)
            values.append(buffer.value if buffer.host is None else buffer.host.copy())
        for tensor, held, buffer in buffers.only_written:
            if tensor._array is not held:
                self._bring(tensor, held, buffer)
        for place in buffers.arguments:
            array = arguments[place]._array
            values.append(array.value if type(array) is DeviceArray else array.copy())
        if self._draws:
            drawn = draw_again(self._draws)
            values += [drawn[place] if part is None else drawn[place][part] for place, part in buffers.draws]
        if buffers.uses_numbers:
            values.append(self.numbers.array())
        return values

    def release(self) -> None:
        """Release buffers that are on the host, after a call, and write new values to memory that others share."""
        for buffer in self._lent:
            buffer.host = None
        self._lent.clear()
        for tensor, shared, before in self._shared:
            if tensor._array.buffer.value is not before:
                shared.write(tensor._array.value)
            tensor._array = shared
        self._shared.clear()

    def _bring(self, tensor: Any, held: DeviceArray, buffer: Buffer) -> None:
        """Move a buffer that was read on the host back to the device, if nothing else holds it there."""
        array = tensor._array
        if type(array) is DeviceArray or buffer.host is None or not np.may_share_memory(array, buffer.host):
            _leave_to_aliases(held)
        if held._parent is not None:  # a part of a buffer, which the host may now hold
            if type(array) is DeviceArray or buffer.host is None or not np.may_share_memory(array, buffer.host):
                tensor._array = held
                held.write(array.value if type(array) is DeviceArray else array)
            return
        if type(array) is DeviceArray:  # it was replaced by another buffer
            is_shared = array._parent is not None or getrefcount(array) > ALONE + 1 or getrefcount(array.buffer) > ALONE
            buffer.value, buffer.host = array.value, None
            buffer.writes += 1
            tensor._array = held
            if is_shared:
                self._shared.append((tensor, array, buffer.value))
            return
        if getrefcount(tensor._array) <= ALONE + 1 + (buffer.host is array) and _owned(
            array
        ):  # a local name, and the buffer
            # JAX's `array` would compile two programs for each shape.
            buffer.value, buffer.host = jax.device_put(np.asarray(array), self._jax_device, may_alias=False), None
            buffer.writes += 1
            tensor._array = held
        elif buffer.host is not array:
            buffer.host = array
            self._lent.append(buffer)


def _leave_to_aliases(held: DeviceArray) -> None:
    """Give a new buffer to tensors that still use a buffer that its own tensor no longer uses."""
    if held.buffer.value is None and held.buffer.host is None:
        return  # there was no value yet
    aliases = [each for each in gc.get_referrers(held) if isinstance(each, TensorCore) and each._array is held]
    if aliases:
        apart = held.copy() if held.buffer.host is None else held.on_host().copy()
        for alias in aliases:
            alias._array = apart


def _owned(array: Any) -> bool:
    """Return whether nothing else holds the array that this one is a view of."""
    base = array.base
    return base is None or (type(base) is np.ndarray and base.base is None and getrefcount(array.base) <= ALONE + 1)
