"""The memory order of a result whose operands have different ones.

NumPy falls back to row-major order then; in PyTorch the first operand that distinguishes two dims decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def ordered(value: Array, operands: Sequence[Any]) -> Array:
    """Return a new result of an elementwise function with PyTorch's strides; a reduction's stays unchanged."""
    if value.flags.c_contiguous:  # as are the operands that are not expanded numbers, mostly
        deciding = [each for each in operands if type(each) is np.ndarray and any(each.strides)]
        if deciding and all(each.shape == value.shape and each.flags.c_contiguous for each in deciding):
            return value
    if any(type(operand) is np.ndarray and operand.ndim > value.ndim for operand in operands):
        return value
    dims = outer_to_inner(value.shape, operands)
    if value.transpose(dims).flags.c_contiguous:
        return value
    result = np.empty([value.shape[dim] for dim in dims], value.dtype).transpose(np.argsort(dims))
    result[...] = value
    return result


def empty_copy_of(array: Array, dtype: Any = None) -> Array:
    """Return an uninitialised array with the strides of a copy of a given one."""
    dims = outer_to_inner(array.shape, [array])
    return np.empty([array.shape[dim] for dim in dims], dtype or array.dtype).transpose(np.argsort(dims))


def laid_out_as(x: Array, result: Array) -> Array:
    """Return a result of x's shape with the strides of a copy of x."""
    if x.ndim < 2 or x.flags.c_contiguous or x.strides == result.strides:
        return result
    copy = empty_copy_of(x, result.dtype)
    copy[...] = result
    return copy


def outer_to_inner(shape: tuple[int, ...], operands: Sequence[Any]) -> list[int]:
    """Return the dims of a result from the largest stride to the smallest."""
    return _sorted_dims(
        shape, [_stretched(operand, shape) for operand in operands if type(operand) is np.ndarray and operand.ndim]
    )


def _stretched(operand: Array, shape: tuple[int, ...]) -> list[int]:
    """Return an operand's strides broadcast to a shape: 0 where it is repeated."""
    more = len(shape) - operand.ndim
    kept = zip(operand.strides, operand.shape, shape[more:], strict=True)
    return [0] * more + [0 if size == 1 != wanted else step for step, size, wanted in kept]


def _sorted_dims(shape: tuple[int, ...], strides: list[list[int]]) -> list[int]:
    order = list(range(len(shape)))[::-1]  # reversed
    for place in range(1, len(order)):
        for nearer in reversed(range(place)):
            wanted = _compared(order[nearer], order[place], shape, strides)
            if wanted > 0:
                order[nearer], order[place] = order[place], order[nearer]
                place = nearer  # dims between that no operand distinguishes stay where they are
            elif wanted < 0:
                break
    return order[::-1]


def _compared(inner: int, outer: int, shape: tuple[int, ...], strides: list[list[int]]) -> int:
    """Return 1 if the first operand that distinguishes two dims has them reversed, -1 if not, 0 if none does."""
    for steps in strides:
        if steps[inner] and steps[outer]:
            if steps[inner] != steps[outer]:
                return 1 if steps[inner] > steps[outer] else -1
            if shape[inner] > shape[outer]:
                return 1
    return 0
