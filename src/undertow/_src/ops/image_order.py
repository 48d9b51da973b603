"""The memory order of images: channels last in, channels last out, as in PyTorch's functions over images."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray, lying

_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
_BACK = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


def has_channels_last(array: object) -> bool:
    """Whether images or volumes are channels last in memory, and not contiguous as well."""
    array = lying(array)
    if type(array) is not np.ndarray or array.flags.c_contiguous or array.ndim not in _LAST:
        return False
    return array.transpose(_LAST[array.ndim]).flags.c_contiguous


def ordered_like(result: object, *inputs: Any) -> Any:
    """Return a new tensor (or several) with its channels last if those of any input are."""
    if any(has_channels_last(value._array) for value in inputs):
        for value in result if isinstance(result, tuple) else (result,):
            array = value._array
            if type(array) is DeviceArray and array.ndim in _LAST:
                array.lie_in_order_of(_LAST[array.ndim])
            if type(array) is np.ndarray and array.ndim in _LAST:
                last = array.transpose(_LAST[array.ndim])
                in_order = last.reshape(-1).reshape(last.shape)  # with the strides of that order in dims of 1, too
                value._array = in_order.transpose(_BACK[array.ndim])
    return result
