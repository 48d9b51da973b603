"""The order in which PyTorch fills a tensor with draws: as its elements lie in memory, whatever its shape."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def memory_order(array: Array) -> tuple[int, ...]:
    """Return the axes of an array from the widest strides to the narrowest."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))


def in_memory_order(values: Array, array: Array) -> Array:
    """Flat values in the shape of an array, laid out so that they follow each other in its memory."""
    if not isinstance(array, np.ndarray):  # one of a device, or of a program
        array = array.lying()
    if array.flags.c_contiguous:
        return values.reshape(array.shape)
    order = memory_order(array)
    inverse = sorted(range(array.ndim), key=order.__getitem__)
    return values.reshape([array.shape[axis] for axis in order]).transpose(inverse)
