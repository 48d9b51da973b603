"""The array functions a rule may use, on undertow's own tensors: a backward pass run with these is itself recorded.

NumPy's names and arguments, each made of public ops. See vocabulary.py for the list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._core import wrap
from undertow.ops import elementwise, reduce, shape
from undertow.ops.elementwise import exp, log, tanh  # noqa: F401
from undertow.xp.tensor_reduce import (  # noqa: F401
    abs_squared, max, max_with_index, mean, min, min_with_index, pair_distances, prod, prod_of_others, sum,
)  # fmt: skip

RECORDED = True  # gradients computed with this namespace are tensors with a history of their own


def dtype_of(x: Any) -> np.dtype[Any]:
    return x._array.dtype


def constant(array: Any) -> Any:
    """A NumPy array as a value of this namespace."""
    return wrap(array)


def zeros(size: tuple[int, ...], dtype: Any = None) -> Any:
    return wrap(np.zeros(size, dtype))


def zeros_like(x: Any) -> Any:
    return wrap(np.zeros(x._array.shape, x._array.dtype))


def sum_to_shape(x: Any, size: tuple[int, ...]) -> Any:
    have = tuple(x.shape)
    if have == size:
        return x
    lead = len(have) - len(size)
    axes = tuple([axis for axis, n in enumerate(have) if axis < lead or (size[axis - lead] == 1 and n != 1)])
    return shape.reshape(reduce.sum(x, axes) if axes else x, size)


def broadcast_to(x: Any, size: tuple[int, ...]) -> Any:
    return shape.expand(x, size)


def reshape(x: Any, size: tuple[int, ...]) -> Any:
    return shape.reshape(x, size)


def transpose(x: Any, axes: tuple[int, ...]) -> Any:
    return shape.permute(x, axes)


def copy(x: Any) -> Any:
    return shape.clone(x)


def multiply(x: Any, y: Any) -> Any:
    return elementwise.mul(x, y)
