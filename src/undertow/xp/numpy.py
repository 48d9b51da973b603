"""The array functions a rule may use, on NumPy: raw arrays, no recording. See vocabulary.py for the list."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import (  # noqa: F401
    abs, add, arange, arccos, arcsin, arctan, arctan2, argsort, broadcast_to, ceil, concatenate, cos, cosh,
    diagonal, divide, equal, exp, exp2, expand_dims, expm1, flip, floor, fmod, full_like, greater,
    greater_equal, isfinite, isinf, isnan, less, less_equal, log, log1p, log2, log10, logaddexp, logical_and,
    logical_not, matmul, maximum, minimum, moveaxis, multiply, negative, not_equal, ones, ones_like,
    power, reshape, rint, roll, sign, sin, sinh, sqrt, square, squeeze, stack, subtract, swapaxes, take,
    take_along_axis, tan, tanh, tensordot, transpose, tril, triu, trunc, where, zeros, zeros_like,
)  # fmt: skip
from undertow.xp.numpy_reduce import (  # noqa: F401
    abs_squared, all, any, argmax, argmin, max, max_with_index, mean, min, min_with_index, pair_distances, prod,
    prod_of_others, sgn, sum,
)  # fmt: skip
from undertow.xp.numpy_scan import cummax, cummin, cumprod, cumsum, logcumsumexp, recurrence  # noqa: F401
from undertow.xp.numpy_sort import (  # noqa: F401
    bincount, histc, histogram, kthvalue, median, mode, nanmedian, searchsorted, sort, topk, unique, unique_consecutive,
)  # fmt: skip

RECORDED = False  # gradients computed with this namespace are plain arrays


def dtype_of(x: Any) -> np.dtype[Any]:
    return x.dtype


def astype(x: Any, dtype: np.dtype[Any]) -> Any:
    return x.astype(dtype, copy=False)


def conj(x: Any) -> Any:
    return x.conj()


def real(x: Any) -> Any:
    return x.real


def imag(x: Any) -> Any:
    return x.imag


def constant(array: Any) -> Any:
    """A NumPy array as a value of this namespace."""
    return array


def copy(x: Any) -> Any:
    return np.array(x)


def sum_to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """Undoes broadcasting: sums over the axes that were stretched to get from `shape` to x's shape."""
    if x.shape == shape:
        return x
    lead = x.ndim - len(shape)
    axes = tuple([axis for axis, n in enumerate(x.shape) if axis < lead or (shape[axis - lead] == 1 and n != 1)])
    return np.add.reduce(x, axis=axes).reshape(shape) if axes else x.reshape(shape)
