"""Donation: a program writes its results over buffers whose values are no longer needed.

JAX lets a program reuse the buffer of an input (the input is *donated*): a parameter's old value, for example, or
the gradient that the last call left. That saves the allocation, and on a GPU much more: XLA replays a recorded graph
of kernels, and has to update it whenever an address changes. But other tensors may hold the same array: JAX arrays are
immutable, so a clone shares its original's. Reference counts tell whether one does.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any
from weakref import ref

import jax

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.compile.lowering.packing import BufferInPack, Pack
from undertow._src.tensor.core import Meta, wrap
from undertow._src.types.devices import device as Device

_probe = wrap(object())
ALONE = getrefcount(_probe._array)  # references to an object that only one slot holds


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
                donated.append(jax.numpy.zeros(shape, dtype, device=self._jax_device))
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
        self._pack.renew(jax.numpy.zeros(self._pack.size, self._pack.dtype, device=jax_device))
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


def a_copy(value: Any) -> Any:
    """Return a copy of a value, which a program may write over."""
    return jax.numpy.array(value, copy=True)
