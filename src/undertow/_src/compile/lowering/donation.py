"""Donation: which buffers a program may write its results over, because their values are no longer needed.

JAX lets a program reuse the buffer of an input (the input is *donated*): a parameter's old value, for example, or
the gradient that the last call left. That saves the allocation, and on a GPU much more: XLA replays a recorded graph
of kernels, and has to update it whenever an address changes. But other tensors may hold the same array: JAX arrays are
immutable, so a clone shares its original's. Reference counts tell whether one does.
"""

from __future__ import annotations

import math
from collections import Counter
from sys import getrefcount
from typing import Any
from weakref import ref

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.lowering.packing import SMALL, BufferInPack, Pack, small_ones
from undertow._src.compile.tracing.capture import Capture
from undertow._src.compile.tracing.results import tensors_in
from undertow._src.tensor.core import Meta, TensorCore, wrap
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device

LeafGradients = list[tuple[Meta, Any]]  # the place of a leaf's gradient, and the gradient from the trace

_probe = wrap(object())
ALONE = getrefcount(_probe._array)  # references to an object that only one slot holds


def overwritable(capture: Capture) -> set[int]:
    """Return the ids of buffers that every call writes over, unless a callback is shown their old values."""
    if capture.may_come_to_nothing:
        return set()
    return {id(buffer) for buffer in capture.outputs} - set(capture.callbacks.shown)


def gradients_alone(capture: Capture, arguments: list[int], returns_graph: bool) -> tuple[LeafGradients, LeafGradients]:
    """Return the gradients that the step leaves and that share their buffers with nothing else that it leaves.

    Return first those that get their own array, then small ones that share one.
    """
    if capture.may_come_to_nothing or returns_graph:  # a graph would keep the values
        return [], []
    left = capture.left
    tensors = [each for part in left.parts() for each in tensors_in(part, left.known)]
    shown = Counter(id(each._array.buffer) for each in tensors if on_device(each))
    made = {id(buffer) for buffer in capture.outputs} - {
        id(each) for each, _, _ in capture.trace.memory.buffers.values()
    }
    read = {id(capture.inputs.given.tensors[place]) for place in arguments}
    grads = capture.inputs.entry.grads
    kept = {id(tensor._meta) for tensor, before in grads if id(before) in read}  # not to be written over
    mirrors = capture.callbacks.mirrors
    gradients = [
        (holder, value)
        for holder, _, value in left.entries
        if type(holder) is Meta
        and id(holder) not in kept
        and on_device(value)
        and shown[id(value._array.buffer)] == 1
        and id(value._array.buffer) in made
        and not mirrors.stand_on(value._array.buffer)
        and value._array._parent is None
        and value._edge is None
        and value._meta is None
    ]
    small = [] if capture.inputs.device is cpu else small_ones([value._array for _, value in gradients])
    return [each for place, each in enumerate(gradients) if place not in small], [gradients[place] for place in small]


def donors(
    capture: Capture, gradients: LeafGradients, small_gradients: LeafGradients
) -> list[Gradients | PackedGradients]:
    """Let the old gradients donate their buffers to the new ones."""
    found: list[Gradients | PackedGradients] = []
    if gradients:
        found.append(Gradients(gradients, capture.inputs.device, capture.inputs.jax_device))
    if small_gradients:
        found.append(PackedGradients(small_gradients, capture.inputs.device, capture.inputs.jax_device))
    return found


def on_device(value: Any) -> bool:
    """Return whether a value is a tensor of the trace, or on a device."""
    return isinstance(value, TensorCore) and type(value._array) is DeviceArray


class Gradients:
    """The gradients that a program leaves on leaves, each for one leaf only, in the order of its outputs.

    A gradient of the last call that only its leaf holds stays the same tensor, and gets the new value.
    """

    def __init__(self, leaves: list[tuple[Meta, Any]], device: Device, jax_device: Any) -> None:
        self._device, self._jax_device = device, jax_device
        self._leaves = [meta for meta, _ in leaves]
        self._specs = [(left._array.shape, left._array.dtype) for _, left in leaves]
        self._strides = [left._array.buffer.strides for _, left in leaves]
        self._last: list[Any] = [None] * len(leaves)  # the values that the last call left
        self._again: list[DeviceArray | None] = []  # during a call: gradients that stay the same tensors
        self.n_arrays = len(leaves)

    def donate(self) -> list[Any]:
        """Return a buffer for each gradient: that of its last value, or a new one if something else holds that."""
        donated: list[Any] = []
        last, again = self._last, self._again
        again.clear()
        for place, meta in enumerate(self._leaves):
            array = _only_of_leaf(meta)
            if array is not None and array.buffer.value is not last[place]:
                array = None
            again.append(array)
            if getrefcount(last[place]) > (ALONE if array is None else ALONE + 1):
                shape, dtype = self._specs[place]
                donated.append(new_buffer(shape, dtype, self._jax_device))
                again[place] = None
            else:
                donated.append(last[place])
                last[place] = None
        return donated

    def receive(self, values: list[Any]) -> None:
        """Put this call's gradients on the leaves."""
        for place, value in enumerate(values):
            array = self._again[place]
            if array is None:
                array = DeviceArray(value, self._device)
                array.buffer.strides = self._strides[place]
                self._leaves[place].grad = wrap(array)
            else:
                array.buffer.value = value
                array.buffer.writes += 1
        self._last = values
        self._again.clear()


class PackedGradients:
    """Small gradients that a program leaves on leaves, in one array."""

    n_arrays = 1

    def __init__(self, leaves: list[tuple[Meta, Any]], device: Device, jax_device: Any) -> None:
        self._device = device
        self._pack = Pack([left._array.shape for _, left in leaves], leaves[0][1]._array.dtype)
        self._pack.renew(new_buffer((self._pack.size,), self._pack.dtype, jax_device))
        self._leaves = [meta for meta, _ in leaves]
        self._left: list[Any] = [None] * len(leaves)  # weak references to the buffers of the last call's gradients

    def donate(self) -> list[Any]:
        """Return the buffer of the last gradients, after copying those that something else holds."""
        for place, meta in enumerate(self._leaves):
            array, left = _only_of_leaf(meta), self._left[place]
            buffer = None if left is None else left()
            if buffer is None or array is None or array.buffer is not buffer or type(buffer) is not BufferInPack:
                self._left[place] = None
                if type(buffer) is BufferInPack:
                    buffer.leave()
        return [self._pack.value]

    def receive(self, values: list[Any]) -> None:
        """Put this call's gradients on the leaves."""
        self._pack.renew(values[0])
        for place, (meta, left) in enumerate(zip(self._leaves, self._left)):
            if left is None:
                part = self._pack.parts[place]
                array = DeviceArray(part, self._device)
                BufferInPack.enter(array.buffer, part)
                self._left[place] = ref(array.buffer)
                meta.grad = wrap(array)
            else:
                left().writes += 1


def _only_of_leaf(meta: Meta) -> DeviceArray | None:
    """Return the array of a leaf's gradient, if nothing else holds the gradient or its buffer."""
    if getrefcount(meta.grad) > ALONE:
        return None
    grad = meta.grad
    if type(grad._array) is not DeviceArray or getrefcount(grad._array) > ALONE or grad._meta is not None:
        return None
    array = grad._array
    if array._parent is not None or array.buffer.host is not None or getrefcount(array.buffer) > ALONE:
        return None
    return array


def new_buffer(shape: tuple[int, ...], dtype: np.dtype[Any], jax_device: Any) -> Any:
    """Return a buffer for a result. JAX's `zeros` would compile a program for each shape, which takes XLA 50 ms."""
    if jax_device.platform != "cpu" and math.prod(shape) * dtype.itemsize > SMALL:
        return jax.numpy.zeros(shape, dtype, device=jax_device)  # which is not copied from the host
    return jax.device_put(np.zeros(shape, dtype), jax_device, may_alias=False)


def a_copy(value: Any) -> Any:
    """Return a copy of a value, which a program may write over."""
    return jax.numpy.array(value, copy=True)
