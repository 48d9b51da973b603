"""Casts and aliases as recorded operations, for the methods of a tensor and for gradients that are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.quiet import quietly
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.rules import convert as rules

if TYPE_CHECKING:
    from undertow._src.tensor.core import TensorCore
    from undertow._tensor import Tensor


def warn_of_real(array: Any, dtype: np.dtype[Any]) -> None:
    """Warn if a cast loses imaginary parts."""
    if array.dtype.kind == "c" and dtype.kind not in "cb" and array.size:
        warn_once("Casting complex values to real discards the imaginary part")


def cast(input: Tensor, dtype: np.dtype[Any], axes: tuple[int, ...] | None = None) -> Tensor:
    """Return a copy in a NumPy dtype; `axes`: their order in memory, the largest stride first."""
    warn_of_real(input._array, dtype)
    if axes is None:
        return quietly(apply, rules.to_copy, input, dtype=dtype)
    result = quietly(apply, rules.to_copy_in_order, input, dtype=dtype, axes=axes)
    if type(result._array) is DeviceArray:
        result._array.lie_in_order_of(axes)
    return result


def alias(input: TensorCore) -> Tensor:
    """Return a view of the whole tensor."""
    return apply(rules.alias, input)
