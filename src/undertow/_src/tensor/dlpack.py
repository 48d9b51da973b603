"""Buffers shared with other array libraries through DLPack, by way of NumPy's own support for it.

NumPy's support does not know bfloat16, so such buffers are exchanged as uint16, and the dtype is written into (or read
from) the exchanged structure by hand.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from undertow.storage import adopt

CPU = (1, 0)  # device type and index
_UINT, _BFLOAT = 1, 4  # type codes
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Offset of the type code: after data, device and ndim; in the versioned form also after a header of 32 bytes.
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}


def export(array: np.ndarray[Any, Any], max_version: Any = None, copy: bool | None = None) -> Any:
    """Return a DLPack capsule over an array's buffer."""
    raw = array.view(np.uint16) if array.dtype == _BFLOAT16 else array
    capsule = raw.__dlpack__(max_version=max_version, copy=copy)
    if array.dtype == _BFLOAT16:
        _type_code(capsule).value = _BFLOAT
    return capsule


def adopted(source: Any) -> np.ndarray[Any, Any]:
    """Return an array over the buffer of a capsule, or of any object with `__dlpack__`."""
    if not hasattr(source, "__dlpack__"):
        if type(source).__name__ != "PyCapsule" or _name(source) not in _CODE_AT:
            raise RuntimeError(
                "from_dlpack received an invalid capsule. A capsule can be consumed once: this one may have "
                "become a tensor before."
            )
        return _consume(source)
    try:
        capsule = source.__dlpack__(max_version=(1, 0))
    except TypeError:  # made before DLPack had versions
        capsule = source.__dlpack__()
    return _consume(capsule)


def _consume(capsule: Any) -> np.ndarray[Any, Any]:
    code = _type_code(capsule)
    is_bfloat = code.value == _BFLOAT
    if is_bfloat:
        code.value = _UINT
    array = np.from_dlpack(_Holder(capsule))
    return adopt(array.view(_BFLOAT16) if is_bfloat else array)


class _Holder:
    """What NumPy accepts: not a capsule but an object that makes one."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


def _name(capsule: Any) -> bytes:
    read = ctypes.pythonapi.PyCapsule_GetName
    read.restype, read.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return read(capsule)


def _type_code(capsule: Any) -> ctypes.c_uint8:
    """Return the byte of the exchanged structure that holds the type code."""
    name = _name(capsule)
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_uint8.from_address(read(capsule, name) + _CODE_AT[name])
