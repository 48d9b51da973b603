"""NumPy arrays that a step makes, and tensors over their memory. To a program that memory is a constant.

So neither side may write to it later if the other would see that: the step may not write to the array, nor to a tensor
over it while user code holds the array.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import getrefcount
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.base import tracer
from undertow._src.base.sites import Site, user_site
from undertow._src.compile.effects import Effects
from undertow._src.compile.errors import CompileError
from undertow._src.compile.tracing.current_trace import running_trace
from undertow.storage import Foreign


class Made:
    """The arrays that a step has made tensors over, and what they held then."""

    def __init__(self) -> None:
        self._arrays: list[tuple[Any, Any, Site | None]] = []
        self._buffers: WeakKeyDictionary[Buffer, int] = WeakKeyDictionary()  # the number of the array below a buffer

    def note(self, array: Any, contents: Any, made: DeviceArray) -> None:
        """Record that a tensor shares an array's memory."""
        if array.base is not None:  # else only the tensor holds it
            self._buffers[made.buffer] = len(self._arrays)
            self._arrays.append((array, contents, user_site()))
            made.buffer.__class__ = BufferOverArray

    def refuse_later_writes(self) -> None:
        """Refuse, at the end of the trace, later writes to an array, which the program would miss."""
        for buffer in list(self._buffers):
            buffer.__class__ = Buffer
        for array, contents, site in self._arrays:
            if not np.array_equal(_bytes(array), _bytes(contents)):
                raise CompileError(
                    f"undertow.compile: the step makes a NumPy array of shape {list(array.shape)}, a tensor over its "
                    f"memory ({site}), and then writes to the array. The write would not reach the tensor: make it from a "
                    "copy, with torch.tensor(array)."
                )

    def refuse_write(self, buffer: Buffer) -> None:
        """Refuse a write to a tensor over an array that user code still holds."""
        array, _, site = self._arrays[self._buffers[buffer]]
        if _is_held(array):
            raise CompileError(
                f"undertow.compile: at {user_site()} the step writes to a tensor over the memory of a NumPy array of shape "
                f"{list(array.shape)} that it made itself ({site}). The write would not reach the array: make the tensor "
                "from a copy, with torch.tensor(array)."
            )


class BufferOverArray(Buffer):
    """The buffer of a tensor over an array; it reports every write during the trace."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        return _VALUE.__get__(self)

    @value.setter
    def value(self, value: Any) -> None:
        if tracer.current is not None:
            running_trace().memory.numpy_memory.refuse_write(self)
        _VALUE.__set__(self, value)


_VALUE: Any = vars(Buffer)["value"]


def refuse_shared(found: Iterable[Effects], written: list[Any], every: list[Any]) -> None:
    """Refuse traced code that uses NumPy arrays over the memory of tensors from outside, if either of them is written to.

    found: the effects and reads of that code; written, every: arrays of tensors, those that the step writes to and all.
    """
    for effects in found:
        if any(_shares_memory(place.owner, each) for place in effects.places for each in written):
            what = "uses a NumPy array over the memory of a tensor to which it writes"
        elif any(_shares_memory(effect.target, each) for effect in effects.effects for each in every):
            what = "writes to a NumPy array over the memory of a tensor that it may read"
        else:
            continue
        raise CompileError(
            f"undertow.compile: the step {what}, which a program would not see. Make the tensor before the step, and use "
            "only the tensor in it."
        )


def _shares_memory(found: Any, array: Any) -> bool:
    if isinstance(found, memoryview):
        found = np.asarray(found)
    return isinstance(found, np.ndarray) and np.may_share_memory(found, array)


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _is_held(array: Any) -> bool:
    """Return whether something else holds an array that this one is a view of."""
    while True:
        below = array.owner if type(array) is Foreign else array.base
        if below is None:
            return False
        if not isinstance(below, (np.ndarray, Foreign)) or getrefcount(below) > _ONCE:
            return True
        array = below


def _references() -> int:
    array: Any = np.zeros(1)[:]
    below = array.base
    return getrefcount(below)


_ONCE = _references()  # references, if only a view of it and a variable hold it
