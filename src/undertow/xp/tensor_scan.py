"""The scans of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded."""

from __future__ import annotations

from typing import Any

from undertow.autograd.apply import apply
from undertow.rules import scan
from undertow.xp.tensor_shape import flip, pad


def cumsum(x: Any, axis: int, dtype: Any = None) -> Any:
    return apply(scan.cumsum, x, dim=axis, dtype=dtype)


def cumprod(x: Any, axis: int) -> Any:
    return apply(scan.cumprod, x, dim=axis)


def recurrence(x: Any, factor: Any, axis: int) -> Any:
    return apply(scan.recurrence, x, factor, dim=axis)


def prod_of_others(x: Any, axis: int) -> Any:
    """The product of all elements before each, times that of all after it."""
    if not x._array.ndim:
        return x * 0 + 1
    shift = tuple([(1, -1) if each == axis else (0, 0) for each in range(x._array.ndim)])
    before = cumprod(pad(x, shift, 1), axis)
    return before * flip(cumprod(pad(flip(x, (axis,)), shift, 1), axis), (axis,))
