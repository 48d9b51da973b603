"""Guards that buffers assumed distinct are still distinct, and shared ones still shared.

A program is made for tensors that share memory as they did when it was made. Between calls user code may tie two weights
(`b.data = a.data`), untie them, or pass a view of a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.compile.guards.guard import Check, Guard
from undertow._src.compile.guards.memory_words import Words, offset_of
from undertow._src.compile.tracing.arguments import Arguments, memory_of, with_common_span
from undertow._src.tensor.core import TensorCore

Memory = tuple[Any, DeviceArray, Buffer]  # a tensor of the step, and its array in the program


class AliasGuard(Guard):
    """Guard that buffers assumed distinct are distinct, where the program writes to one, and that tied tensors are one."""

    def __init__(
        self,
        written: list[Memory],
        read: list[Memory],
        tied: list[tuple[Any, Any]],
        given: list[int],
        overwritten: list[int],
    ) -> None:
        self.written, self.read, self._tied = written, read, tied
        self._overwritten = overwritten  # places of arguments that the program writes to
        self._given = [place for place in given if place not in overwritten]  # other arguments with a separate buffer
        self._buffers = {id(buffer) for _, _, buffer in written}
        self.all_buffers = self._buffers | {id(buffer) for _, _, buffer in read}

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "which tensors share memory"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self.all_buffers)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether the same buffers are shared."""
        for memories in (self.written, self.read):
            for tensor, held, buffer in memories:
                if tensor._array is not held or buffer.host is not None:
                    return self.are_apart(arguments)
        if self._tied or self._overwritten:
            return self.are_apart(arguments)
        for place in self._given:
            if type(arguments[place]._array) is DeviceArray:
                return self.are_apart(arguments)
        return True

    def watch(self, words: Words) -> Check | None:
        """Watch that all tensors are in the program's memories, and that none of these is in use on the host."""
        if self._tied or self._overwritten:
            return self.hold
        for tensor, held, buffer in (*self.written, *self.read):
            words.slot(tensor, offset_of(TensorCore, "_array"), held)
            words.slot(buffer, offset_of(Buffer, "host"), None)
        return self._given_are_apart if self._given else None

    def _given_are_apart(self, arguments: Sequence[Any]) -> bool:
        """Return whether no argument is in a memory that the program writes to, if the memory has the program's value."""
        return not any(_stands_on(arguments[place]._array, self._buffers) for place in self._given)

    def reason(self) -> str:
        """Return what changed, in words."""
        return "other tensors than before share memory"

    def are_apart(self, arguments: Sequence[Any], gradients: Sequence[Any] = ()) -> bool:
        """Return whether the buffers that the program assumes distinct are distinct, and tied ones are one."""
        for one, other in self._tied:
            if memory_of(one) != memory_of(other):
                return False
        written = [*gradients, *[arguments[place]._array for place in self._overwritten]]
        others = [arguments[place]._array for place in self._given]
        if any(_stands_on(array, self.all_buffers) for array in written):
            return False
        if any(_stands_on(array, self._buffers) for array in others):
            return False
        for memories, brought in ((self.written, written), (self.read, others)):
            for tensor, held, buffer in memories:
                array = tensor._array
                if array is not held:  # it was replaced by another buffer
                    if _stands_on(array, self.all_buffers):
                        return False
                    brought.append(array)
                elif buffer.host is not None:  # it is in use on the host
                    brought.append(buffer.host)
        return not written or not _overlap(written, others)


class GradientAliasGuard(Guard):
    """Guard which gradients of the step's own tensors share memory."""

    def __init__(self, memories: AliasGuard, given: Arguments, tied: list[Any]) -> None:
        self._memories, self._given = memories, given
        self._tied = tied  # None: a gradient with a separate buffer

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "which gradients share memory"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._tied)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether gradients that shared a buffer are the same tensors, and others have their own."""
        alone = []
        for gradient, tied in zip(self._given.gradients(), self._tied):
            if tied is None and gradient is not None:
                if gradient._view is not None:
                    return False
                alone.append(gradient._array)
            elif tied is not gradient:
                return False
        buffers = {id(array.buffer) for array in alone if type(array) is DeviceArray}
        if len(buffers) == len(alone):
            return buffers.isdisjoint(self._memories.all_buffers)
        return self._memories.are_apart(arguments, alone)

    def reason(self) -> str:
        """Return what changed, in words."""
        return "other gradients than before share memory"


class KeptGradientGuard(Guard):
    """Guard that gradients which the step also keeps elsewhere are the same tensors as before.

    A gradient is an input of the program, because most steps make new ones. But one that the step also reaches elsewhere (a
    hook keeps it in a list) is a tensor of the step's own: a program that uses it is for that tensor.
    """

    def __init__(self, kept: list[tuple[Any, Any]]) -> None:
        self._kept = kept  # leaves, and their gradients

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "gradients that the step keeps"

    @property
    def number(self) -> int:
        """Return their number."""
        return len(self._kept)

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether each leaf still has the gradient that the step keeps."""
        return all(leaf.grad is gradient for leaf, gradient in self._kept)

    def reason(self) -> str:
        """Return the leaf whose gradient changed, in words."""
        leaf = next(leaf for leaf, gradient in self._kept if leaf.grad is not gradient)
        return f"the gradient of a parameter of shape {list(leaf.shape)} is no longer the tensor that the step keeps"


def _stands_on(array: Any, buffers: set[int]) -> bool:
    return type(array) is DeviceArray and id(array.buffer) in buffers


def _overlap(written: list[Any], others: list[Any]) -> bool:
    """Return whether two of some arrays overlap, or one of them and one of `others`."""
    buffers = [id(array.buffer) for array in written if type(array) is DeviceArray]
    if len(set(buffers)) < len(buffers) or any(_stands_on(array, set(buffers)) for array in others):
        return True
    arrays = [*written, *others]
    return any(
        min(place, other) < len(written) and np.shares_memory(arrays[place], arrays[other])
        for place, other in with_common_span(arrays)
    )
