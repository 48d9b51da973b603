"""The buffers that a traced step reads, writes and makes.

A tensor from outside that an op uses is adopted: its buffer becomes an input of the program, and the tensor holds an array
that stands for it. All of that is undone after the trace.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.arrays.device.placement import HostedArray
from undertow._src.compile.errors import CompileError
from undertow._src.compile.tracing.numpy_memory import Made
from undertow._src.engine.views import device_view


class TracedMemory:
    """The buffers of one trace."""

    def __init__(self) -> None:
        # The id of a JAX array that stands for an input -> its Buffer, or which of the host inputs, and which part of it.
        self.inputs: dict[int, Any] = {}
        self.arrays: list[Any] = []  # those arrays, kept alive
        # Memories from outside: their values, and their numbers of writes.
        self.buffers: dict[int, tuple[Buffer, Any, int]] = {}
        self.adopted: list[tuple[Any, DeviceArray]] = []  # tensors from outside, and their arrays during the trace
        self._outside: set[int] = set()  # ids of those tensors
        self.originals: list[tuple[Any, Any]] = []  # tensors from outside, and their arrays before it
        self._by_memory: dict[tuple[Any, ...], DeviceArray] = {}
        self.made: weakref.WeakKeyDictionary[Buffer, None] = weakref.WeakKeyDictionary()  # in order, unlike a set
        self.numpy_memory = Made()  # arrays whose memory tensors share
        self.left_behind: set[int] = set()  # ids of buffers from outside whose tensors were given others
        self.is_traced = False  # whether the step runs; before that, buffers wait for their places among the inputs

    def adopt_one(self, tensor: Any) -> None:
        """Make the buffer of a tensor from outside an input of the program."""
        array = tensor._array
        if type(array) is DeviceArray and self._is_known(array.buffer):
            is_new_alias = not self.is_traced and array.buffer not in self.made and id(tensor) not in self._outside
            if is_new_alias:  # of one that is already adopted
                self.originals.append((tensor, array))
                self.adopted.append((tensor, array))
                self._outside.add(id(tensor))
            return
        view = tensor._view
        if view is not None:
            self.adopt_one(view.base)
            held = view.base._array
            for step in view.steps:
                held = device_view(held, step)
        elif type(array) is DeviceArray:
            held = array
            self._enter(held.buffer)
        else:
            memory = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
            known = self._by_memory.get(memory) if array.size else None
            if known is None:
                known = self._by_memory[memory] = DeviceArray(array)
                self.made.pop(known.buffer, None)
                known.buffer.host = array
                if type(array) is HostedArray:
                    known.buffer.live_on(array.nominal)
                known.lie_with(array.strides)
                self._enter(known.buffer)
            held = known
        self.originals.append((tensor, array))
        self.adopted.append((tensor, held))
        self._outside.add(id(tensor))
        tensor._array = held

    def as_it_was(self, array: Any) -> Any:
        """Return an array from outside, with its value outside."""
        if type(array) is not DeviceArray or id(array.buffer) not in self.buffers:
            return array
        if array._parent is not None:
            return self.as_it_was(array._parent).view_by(array._take, array._put)
        return array.like(self.buffers[id(array.buffer)][1] if array.buffer.host is None else array.buffer.host)

    def is_from_outside(self, tensor: Any) -> bool:
        """Return whether a tensor from before the trace is part of it."""
        return id(tensor) in self._outside

    def owner_of(self, buffer: Buffer) -> Any:
        """Return the tensor from outside that owns a buffer, if any."""
        return next((tensor for tensor, held in self.adopted if held.buffer is buffer and held._parent is None), None)

    def has_moved(self, tensor: Any) -> bool:
        """Return whether the step has given a tensor from outside other memory (`tensor.data = other`)."""
        held = next((held for each, held in self.adopted if each is tensor), None)
        return held is not None and tensor._array is not held

    def is_made(self, tensor: Any) -> bool:
        """Return whether a tensor's buffer was made during the trace."""
        return type(tensor._array) is DeviceArray and tensor._array.buffer in self.made

    def _is_known(self, buffer: Buffer) -> bool:
        return id(buffer) in self.buffers or buffer in self.made

    def _enter(self, buffer: Buffer) -> None:
        """Make a buffer from outside an input: before the trace it waits for its place, during it a
        stand-in is made.
        """
        self.buffers[id(buffer)] = (buffer, buffer.value, buffer.writes)
        buffer.writes = 0
        if self.is_traced:
            value = self.stand_in(buffer.value if buffer.host is None else buffer.host)
            self.inputs[id(value)] = buffer
            buffer.value = value

    def stand_in(self, array: Any) -> Any:
        """Return a JAX array that stands for an input; in the traced program it is a constant, which identifies the
        input.
        """
        with jax.ensure_compile_time_eval():
            value = jax.device_put(array.copy()) if isinstance(array, np.ndarray) else jax.numpy.array(array)
        self.arrays.append(value)
        return value

    def settle_memories(self) -> None:
        """If a tensor from outside was given other memory (`p.data = …`), write the value into its own."""
        moved = [(tensor, held, tensor._array) for tensor, held in self.adopted if tensor._array is not held]
        stood_on = [id(tensor._array.buffer) for tensor, _ in self.adopted if type(tensor._array) is DeviceArray]
        for _, held, array in moved:
            if array.shape != held.shape or array.dtype != held.dtype:
                raise CompileError(
                    f"undertow.compile: the step sets the .data of a tensor of shape {list(held.shape)} to a tensor of "
                    f"another shape or dtype, {list(array.shape)}. Do that before the step."
                )
            if type(array) is DeviceArray and array.buffer is not held.buffer and stood_on.count(id(array.buffer)) > 1:
                raise CompileError(
                    f"undertow.compile: the step gives a tensor of shape {list(held.shape)} the memory of another "
                    "(`a.data = b.data`), but the tensors of a program can't share it. Copy it: `a.data.copy_(b)`."
                )
        left = {id(held.buffer): tensor for tensor, held, array in moved if array.buffer is not held.buffer}
        for tensor, held in self.adopted:
            if left.get(id(held.buffer), tensor) is not tensor:
                raise old_alias(tensor)
        self.left_behind |= set(left)
        # They may be exchanged.
        values = [array.value if type(array) is DeviceArray else array for _, _, array in moved]
        for (tensor, held, _), value in zip(moved, values):
            held.write(value)
            tensor._array = held

    def refuse_old_aliases(self, left: Iterable[Any], shown: Iterable[Any]) -> None:
        """Refuse tensors that keep the memory that a tensor from outside had before it was given other memory.

        Code on the host may keep aliases of those that it was shown.
        """
        for tensor in (*shown, *[each for each in left if not self.is_from_outside(each)]) if self.left_behind else ():
            array = tensor._array
            while type(array) is DeviceArray and array._parent is not None:
                array = array._parent
            if type(array) is DeviceArray and id(array.buffer) in self.left_behind:
                raise old_alias(tensor)

    def memories(self) -> list[Buffer]:
        """Return all buffers that the step can write to."""
        return [*[buffer for buffer, _, _ in self.buffers.values()], *self.made]

    def host_memories(self) -> tuple[list[Any], list[Any]]:
        """Return the arrays on the host of tensors from outside: those that were written to, and all."""
        arrays = {id(buffer): buffer.host for buffer, _, _ in self.buffers.values() if buffer.host is not None}
        written = [buffer for buffer, _, _ in self.buffers.values() if buffer.writes and id(buffer) in arrays]
        return [arrays[id(buffer)] for buffer in written], list(arrays.values())

    def undo(self) -> None:
        """Restore tensors from outside to their earlier values."""
        for tensor, array in self.originals:
            tensor._array = array
        for buffer, value, writes in self.buffers.values():
            buffer.value, buffer.writes = value, writes + 1

    def finish(self) -> None:
        """End a trace that became a program: buffers have real values again."""
        for buffer, value, writes in self.buffers.values():
            buffer.value, buffer.writes = value, writes + buffer.writes + 1
            if isinstance(value, np.ndarray):  # its tensor holds it, and a program moves it in when it is called
                buffer.value = buffer.host = None
        for tensor, array in self.originals:
            tensor._array = array
        self.originals.clear()


def old_alias(tensor: Any) -> CompileError:
    """Return the error for an alias of memory that its owner has left."""
    return CompileError(
        f"undertow.compile: the step sets the .data of a tensor, and an alias of its old memory, of shape "
        f"{list(tensor.shape)}, is still used; in a program it would change with the tensor. Write in place instead "
        "(`p.data.copy_(new)`, `p.data.clamp_(…)`), or use a clone() of the old values."
    )
