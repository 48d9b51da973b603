"""In which order the elements of a result lie in memory, where its operands do not agree about it.

NumPy falls back to rows then; PyTorch asks one operand after the other, and the first that can tell decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def ordered(value: Array, operands: Sequence[Any]) -> Array:
    """Return a new result of an elementwise function, laid out as PyTorch lays it out; a reduction's stays as it is."""
    if any(type(operand) is np.ndarray and operand.ndim > value.ndim for operand in operands):
        return value
    dims = outer_to_inner(value.shape, operands)
    if value.transpose(dims).flags.c_contiguous:
        return value
    result = np.empty([value.shape[dim] for dim in dims], value.dtype).transpose(np.argsort(dims))
    result[...] = value
    return result


def empty_copy_of(array: Array, dtype: Any = None) -> Array:
    """Return an array without values that lies as a copy of another one does."""
    dims = outer_to_inner(array.shape, [array])
    return np.empty([array.shape[dim] for dim in dims], dtype or array.dtype).transpose(np.argsort(dims))


def laid_out_as(x: Array, result: Array) -> Array:
    """Return a result of x's shape, lying as a copy of x does."""
    if x.ndim < 2 or x.flags.c_contiguous or x.strides == result.strides:
        return result
    copy = empty_copy_of(x, result.dtype)
    copy[...] = result
    return copy


def outer_to_inner(shape: tuple[int, ...], operands: Sequence[Any]) -> list[int]:
    """Return the dims of a result from the one with the widest steps to the one with the narrowest."""
    return _sorted_dims(
        shape, [_stretched(operand, shape) for operand in operands if type(operand) is np.ndarray and operand.ndim]
    )


def _stretched(operand: Array, shape: tuple[int, ...]) -> list[int]:
    """Return an operand's strides in a result of a shape: 0 where it is repeated."""
    more = len(shape) - operand.ndim
    kept = zip(operand.strides, operand.shape, shape[more:], strict=True)
    return [0] * more + [0 if size == 1 != wanted else step for step, size, wanted in kept]


def _sorted_dims(shape: tuple[int, ...], strides: list[list[int]]) -> list[int]:
    order = list(range(len(shape)))[::-1]  # the other way round
    for place in range(1, len(order)):
        for nearer in reversed(range(place)):
            wanted = _compared(order[nearer], order[place], shape, strides)
            if wanted > 0:
                order[nearer], order[place] = order[place], order[nearer]
                place = nearer  # dims between that nobody could tell apart stay where they are
            elif wanted < 0:
                break
    return order[::-1]


def _compared(inner: int, outer: int, shape: tuple[int, ...], strides: list[list[int]]) -> int:
    """1 if the first operand that can tell has them the other way round, -1 if it has them so, 0 if none can tell."""
    for steps in strides:
        if steps[inner] and steps[outer]:
            if steps[inner] != steps[outer]:
                return 1 if steps[inner] > steps[outer] else -1
            if shape[inner] > shape[outer]:
                return 1
    return 0
