"""Memory on the host that hooks may keep. Each call checks what is kept, so that aliases are those of eager mode.

The first gradient of a leaf becomes its `.grad` without a copy, unless something holds the tensor that hooks got. So a
kept `g` has its own memory, and a kept `g.detach()` shares memory with `.grad`. In a trace both are one buffer. In a
call, `Taken` decides after the hook, when it is known what the hook has kept.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.placement import hosted
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.numpy.shape import contiguous_strides
from undertow._src.base.tree import leaves
from undertow._src.compile.errors import CompileError
from undertow._src.tensor.core import TensorCore, wrap

if TYPE_CHECKING:
    from undertow._src.compile.callbacks.container_mirrors import ContainerMirror
    from undertow._src.compile.callbacks.host_calls import HostCall
    from undertow._src.compile.callbacks.tensor_mirrors import HostMirror

Part = tuple[Callable[..., Any], Callable[..., Any]]  # functions that take a view of an array, and write to it


class WeakMemory:
    """A weak reference to an array that lasts as long as its memory: a view, or its base, may be held."""

    def __init__(self, array: Any) -> None:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self._array, self._owner = ref(array), ref(owner)
        self._part: tuple[Any, ...] | None = None
        self._nominal = getattr(array, "nominal", None)
        if owner is not array:
            begin = array.__array_interface__["data"][0] - _bytes_of(owner).__array_interface__["data"][0]
            self._part = array.shape, array.dtype, begin, array.strides

    def __call__(self) -> Any:
        """Return the array, None if its memory is gone."""
        array, owner = self._array(), self._owner()
        if array is None and owner is not None and self._part is not None:
            shape, dtype, begin, strides = self._part
            array = np.ndarray(shape, dtype, _bytes_of(owner), begin, strides)
            array = array if self._nominal is None else hosted(array, self._nominal)
            self._array = ref(array)
        return array


def _bytes_of(owner: Any) -> Any:
    return owner.ravel("K").view(np.uint8)


def nothing_held() -> None:
    """Return None: a weak reference to nothing."""


class _Present:
    """The state of a memory in one call."""

    array: Callable[[], Any] = staticmethod(nothing_held)
    worn = -1  # the number of writes in its value
    mark: Any = None  # to detect writes: on a device their count, else a copy


class Memory:
    """The memory on the host of a buffer that a program computes: new in each call, and there while something holds it."""

    def __init__(self, strides: tuple[int, ...] | None = None, is_on_cpu: bool = False) -> None:
        self.strides = strides  # eager mode's strides, if it is not contiguous
        self.is_on_cpu = is_on_cpu  # in eager mode: a step on a GPU may compute on the CPU, too
        self.is_over = False  # whether a gradient has taken it over in the trace
        self.begin()

    def begin(self) -> None:
        """Forget the array of the last call, before the next call of the program."""
        self._present = _Present()

    def array(self) -> Any:
        """Return this call's array, if something holds it."""
        return self._present.array()

    def hold(self, array: Any, value: Any, writes: int) -> None:
        """Use an array from now on, with the value after this number of writes; memories that took this one over, too."""
        self._present.array = WeakMemory(array)
        self._note(array, value, writes)

    def refresh(self, value: Any, writes: int) -> Any:
        """Put a value into the array, if anything holds it; return the array."""
        array = self.array()
        if array is not None and self._present.worn != writes:
            self.refuse_writes()
            array[...] = value
            self._note(array, value, writes)
        return array

    def _note(self, array: Any, value: Any, writes: int) -> None:
        self._present.worn = writes
        self._present.mark = array.buffer.writes if type(array) is DeviceArray else value

    def note_writes(self) -> None:
        """Record a hook's write that the program expects."""
        array = self.array()
        if array is not None:
            self._note(array, np.array(array), self._present.worn)

    def refuse_writes(self) -> None:
        """Raise if something on the host has written to it, and the program does not expect that."""
        array, mark = self.array(), self._present.mark
        if array is None or mark is None:
            return
        if type(array) is DeviceArray:
            same = array.buffer.writes == mark
        else:
            same = array.tobytes() == np.broadcast_to(mark, array.shape).tobytes()  # a value may have been expanded
        if not same:
            raise CompileError(
                "undertow.compile: a hook or a statement on the host wrote to a tensor of the step, of shape "
                f"{list(array.shape)}, through an alias kept from before, which the program can't see. Write to the tensor "
                "in the hook that is given it, or keep a clone() and write to that."
            )

    def leave_to(self, tensors: Sequence[Any]) -> None:
        """Allow writes by these tensors from now on, if one of them shares the memory: the program makes these."""
        array = self.array()
        if any(array is not None and np.may_share_memory(array, tensor._array) for tensor in tensors):
            self._present.mark = None

    def lies_like(self, array: Any) -> bool:
        """Return whether an array on the host has eager mode's strides, or there is none."""
        if not isinstance(array, np.ndarray):
            return True
        return array.strides == (self.strides or contiguous_strides(array.shape, array.itemsize))

    def take(self, other: Memory) -> None:
        """Use the same array as another memory, as long as something holds it."""
        self._present = other._present


def parts_of(array: DeviceArray) -> tuple[DeviceArray, tuple[Part, ...]]:
    """Return the base array of a view, and the steps to the view."""
    steps: list[Part] = []
    while array._parent is not None:
        steps.append((array._take, array._put))
        array = array._parent
    return array, tuple(reversed(steps))


def part_of(whole: Any, parts: tuple[Part, ...]) -> Any:
    """Return the view of an array, taken by these steps."""
    for take, put in parts:
        whole = whole.view_by(take, put) if type(whole) is DeviceArray else take(numpy_xp, whole)
    return whole


class Taken:
    """A gradient that takes over the memory of a tensor that hooks were shown, unless something holds that tensor."""

    def __init__(self, shown: HostMirror, gradient: HostMirror, has_aliases: bool) -> None:
        self._shown, self._gradient = shown, gradient
        self._has_aliases = has_aliases  # in the program

    def decide(self, calls: list[HostCall], containers: list[ContainerMirror]) -> None:
        """Check what hooks of this call have kept; references from `calls` and `containers` do not count."""
        lies_alike = self._gradient.memory.lies_like(self._shown.memory.array())  # a hook may have returned it
        if lies_alike and not _is_held(self._shown.present, calls, containers):
            self._gradient.memory.take(self._shown.memory)
            return
        self._shown.memory.begin()  # from now on the program does not write to it
        if self._has_aliases and not lies_alike:
            raise CompileError(
                "undertow.compile: a hook on the host returns a gradient with other strides than its leaf has, so .grad is "
                "made a copy of it; but a hook in the program keeps an alias of the gradient, which should not be one of "
                ".grad. Keep a clone(), or return the gradient with the strides of the leaf."
            )
        if self._has_aliases:
            raise CompileError(
                "undertow.compile: a hook on the host keeps the gradient that it is given, so .grad is made a copy of it; "
                "but a hook in the program keeps an alias of that gradient, which should be an alias of .grad. Let both "
                "hooks keep a clone(), or both a detach()."
            )


def _is_held(present: Callable[[], Any], calls: list[HostCall], containers: list[ContainerMirror]) -> bool:
    """Return whether something holds a tensor besides the results and arguments of hooks."""
    tensor = present()
    if tensor is None:
        return False
    own = sum(each is tensor for call in calls for each in leaves(call.outcome.answer))
    own += sum(container.live_references_to(tensor, containers) for container in containers)
    return getrefcount(tensor) > _ONE_NAME + own


def _references_by_name() -> int:
    tensor = wrap(np.zeros(1))
    return getrefcount(tensor)


_ONE_NAME = _references_by_name()  # the `getrefcount` of an object that one variable holds


def has_aliases(tensor: Any, known: Sequence[Any]) -> bool:
    """Return whether unknown tensors share the buffer of a tensor of the trace. This is slow."""
    own = {id(tensor), *map(id, known)}
    arrays = [each for each in gc.get_referrers(tensor._array.buffer) if type(each) is type(tensor._array)]
    return any(isinstance(each, TensorCore) and id(each) not in own for each in gc.get_referrers(*arrays))
