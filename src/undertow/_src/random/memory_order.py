"""The order in which PyTorch fills a tensor with draws: that of its strides, whatever its shape."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def memory_order(array: Array) -> tuple[int, ...]:
    """Return the axes of an array from the largest stride to the smallest."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))


def in_memory_order(values: Any, array: Any) -> Any:
    """Return flat values in the shape of an array, in the order of its strides."""
    if not isinstance(array, np.ndarray):  # an array of a device, or of a traced program
        array = array.lying()
    if array.flags.c_contiguous:
        return values.reshape(array.shape)
    order = memory_order(array)
    inverse = sorted(range(array.ndim), key=order.__getitem__)
    return values.reshape([array.shape[axis] for axis in order]).transpose(inverse)


def is_dense(array: Array) -> bool:
    """Whether an array's elements fill a block of memory, each place once, in any order of axes."""
    expected = array.itemsize
    for axis in reversed(memory_order(array)):
        if array.shape[axis] > 1 and array.strides[axis] != expected:
            return False
        expected *= array.shape[axis]
    return True


def byte_offset(array: Array) -> int:
    """Return how many bytes after the beginning of its memory an array begins."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return array.ctypes.data - root.ctypes.data
