"""Sets of dtypes as tables of operators name them, and NumPy's functions in PyTorch's words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from undertow.testing._internal import common_dtype as sets
from undertow.testing._internal.common_utils.facts import torch_to_numpy_dtype_dict as torch_to_numpy_dtype_dict

TEST_CUDA = False
DEVICES = ["cpu"]
COMPLETE_DTYPES_DISPATCH = (
    sets.all_types, sets.all_types_and_complex, sets.all_types_and_half, sets.floating_types,
    sets.floating_and_complex_types, sets.floating_types_and_half, sets.integral_types, sets.complex_types,
)  # fmt: skip
EXTENSIBLE_DTYPE_DISPATCH = (
    sets.all_types_and_complex_and, sets.floating_types_and, sets.floating_and_complex_types_and, sets.integral_types_and,
    sets.all_types_and,
)  # fmt: skip


def prod_numpy(a: Any, *args: Any, **kwargs: Any) -> Any:
    """NumPy's product, which multiplies whole numbers as int64, as PyTorch does."""
    if "dtype" not in kwargs and np.issubdtype(a.dtype, np.integer):
        kwargs["dtype"] = np.int64
    return np.prod(a, *args, **kwargs)


def reference_reduction_numpy(f: Callable[..., Any], supports_keepdims: bool = True) -> Callable[..., Any]:
    """Return a reduction of NumPy's with the arguments of PyTorch's: dim, keepdim, mask, identity."""

    @wraps(f)
    def reduced(x: Any, *args: Any, **kwargs: Any) -> Any:
        dim = kwargs.pop("dim", None)
        if dim is not None:
            kwargs["axis"] = tuple(dim) if isinstance(dim, (list, tuple)) else dim
        keepdim = kwargs.pop("keepdim", False)
        if keepdim and supports_keepdims:
            kwargs["keepdims"] = True
        for own, theirs in (("mask", "where"), ("identity", "initial")):
            if own in kwargs:
                value = kwargs.pop(own)
                if value is not None:
                    kwargs[theirs] = value.cpu().numpy() if own == "mask" else value
        result = f(x, *args, **kwargs)
        if keepdim and not supports_keepdims and x.ndim > 0:
            axes = range(x.ndim) if dim is None else kwargs["axis"]
            result = np.expand_dims(result, tuple(axes) if not isinstance(axes, int) else axes)
        return result

    return reduced


def np_unary_ufunc_integer_promotion_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy's that gives float32 for whole numbers, as PyTorch's do."""

    def promoted(x: Any) -> Any:
        return fn(x.astype(np.float32)) if np.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_ else fn(x)

    return promoted
