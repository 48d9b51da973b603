"""Packing: small buffers on a device that a program keeps side by side in one array.

Every array that goes into a program or comes out of it costs JAX some microseconds on the host, and a small training step
takes a GPU hardly longer than that. So small buffers that only the end of a step needs (optimizer states, gradients) share
one array, a *pack*. A tensor's part is sliced out when the tensor is read. A tensor that is written to outside the program
gets its own buffer, until the next call packs all of them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer, BufferOffCpu

SMALL = 4 << 20  # in bytes: a GPU copies this in a microsecond or two
WHOLE = 32 << 20  # bytes in one pack


class Pack:
    """One array with a part for each of some buffers."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any]) -> None:
        self.value: Any = None
        self.whole = False  # whether all buffers have their values in it
        self.dtype = dtype
        self.parts: list[Part] = []
        start = 0
        for shape in shapes:
            self.parts.append(Part(self, start, shape))
            start += math.prod(shape)
        self.size = start
        self.cut_out: list[Part] = []

    def renew(self, value: Any) -> None:
        """Replace the array."""
        self.value = value
        for part in self.cut_out:
            part.own = None
        self.cut_out.clear()

    def cut(self, value: Any) -> list[Any]:
        """Return all parts of a value, for the program."""
        return [value[part.start : part.stop].reshape(part.shape) for part in self.parts]


def side_by_side(values: Iterable[Any]) -> Any:
    """Return the value of a pack, given the values of its parts."""
    return jax.numpy.concatenate([jax.numpy.ravel(value) for value in values])


class Part:
    """The part of a pack that is one buffer's."""

    __slots__ = ("own", "pack", "shape", "start", "stop")

    def __init__(self, pack: Pack, start: int, shape: tuple[int, ...]) -> None:
        self.pack, self.start, self.stop, self.shape = pack, start, start + math.prod(shape), shape
        self.own: Any = None  # its current value, once it was cut out

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.pack.dtype

    def cut(self) -> Any:
        """Return the current value."""
        if self.own is None:
            with jax.ensure_compile_time_eval():  # while another step is traced, too
                self.own = _cut_out(self.pack.value, self.start, self.shape)
            self.pack.cut_out.append(self)
        return self.own


class BufferInPack(BufferOffCpu):
    """A buffer whose value is a part of a pack; its `value` holds the part.

    Once it gets another value, or is read on the host, it is an ordinary buffer again.
    """

    __slots__ = ()

    def enter(self: Buffer, part: Part) -> None:
        """Move a buffer that is not on the CPU into a pack."""
        if type(self) is BufferInPack:
            self.part.pack.whole = False
        self.__class__ = BufferInPack
        _value.__set__(self, part)

    def leave(self) -> None:
        """Give the buffer a value of its own."""
        self.value = self.value

    @property
    def part(self) -> Part:
        return _value.__get__(self)

    @property
    def value(self) -> Any:
        return self.part.cut()

    @value.setter
    def value(self, value: Any) -> None:
        self.part.pack.whole = False
        self.__class__ = BufferOffCpu  # type: ignore[assignment]
        self.value = value

    @property
    def host(self) -> None:
        return None

    @host.setter
    def host(self, host: np.ndarray[Any, Any] | None) -> None:
        if host is not None:
            self.leave()
            self.host = host


_value: Any = vars(Buffer)["value"]  # the slot itself


class StatePack(Pack):
    """A pack of buffers that stay the same: (tensor, its array in the program, its buffer)."""

    @staticmethod
    def of(members: list[tuple[Any, DeviceArray, Buffer]]) -> StatePack:
        """Return the pack of these buffers; programs for the same buffers share it."""
        key = tuple(id(buffer) for _, _, buffer in members)
        pack = _packs.get(key)
        if pack is None:
            pack = _packs[key] = StatePack(members)
        return pack

    def __init__(self, members: list[tuple[Any, DeviceArray, Buffer]]) -> None:
        super().__init__([held.shape for _, held, _ in members], members[0][1].dtype)
        self.buffers = [buffer for _, _, buffer in members]

    def gathered(self) -> Any:
        """Return the array with the current values of all members."""
        if not self.whole:
            self.renew(_gather([buffer.value if buffer.host is None else buffer.host for buffer in self.buffers]))
        return self.value

    def receive(self, value: Any) -> None:
        """Take a call's new values; copy a part to the host if its buffer is in use there."""
        self.renew(value)
        if not self.whole:
            for buffer, part in zip(self.buffers, self.parts):
                if buffer.host is None:
                    BufferInPack.enter(buffer, part)
                else:
                    buffer.host[...] = part.cut()
            self.whole = all(buffer.host is None for buffer in self.buffers)
        for buffer in self.buffers:
            buffer.writes += 1


_packs: WeakValueDictionary[tuple[int, ...], StatePack] = WeakValueDictionary()
_gather = jax.jit(side_by_side)
_cut_out = jax.jit(
    lambda value, start, shape: jax.lax.dynamic_slice(value, (start,), (math.prod(shape),)).reshape(shape),
    static_argnames="shape",
)


def small_ones(arrays: Sequence[DeviceArray]) -> list[int]:
    """Return the indices of arrays that are worth packing: small ones of one dtype."""
    chosen: list[int] = []
    size = 0
    for place, array in enumerate(arrays):
        if 0 < array.nbytes <= SMALL and size + array.nbytes <= WHOLE:
            if not chosen or array.dtype == arrays[chosen[0]].dtype:
                chosen.append(place)
                size += array.nbytes
    return chosen if len(chosen) > 1 else []
