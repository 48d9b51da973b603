"""Factories: tensors from data, constants and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._core import wrap
from undertow.dtypes import dtype as Dtype
from undertow.dtypes import get_default_dtype


def tensor(data: Any, *, dtype: Dtype | None = None, requires_grad: bool = False) -> Any:
    """A new tensor holding a copy of data."""
    array = np.array(data)
    if dtype is not None:
        array = array.astype(dtype.numpy)
    elif array.dtype == np.float64:
        array = array.astype(get_default_dtype().numpy)
    result = wrap(array)
    result.requires_grad = requires_grad
    return result


def ones(*size: int, dtype: Dtype | None = None, requires_grad: bool = False) -> Any:
    """A tensor of ones."""
    result = wrap(np.ones(size, (dtype or get_default_dtype()).numpy))
    result.requires_grad = requires_grad
    return result


def from_numpy(array: Any) -> Any:
    """A tensor over the memory of a NumPy array."""
    return wrap(array)
