"""Type aliases for annotations: numbers, devices, sizes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TypeAlias

from undertow._src.types.aliases import Device as Device
from undertow._src.types.aliases import FileLike as FileLike
from undertow._src.types.aliases import Number as Number
from undertow._src.types.aliases import _size as _size
from undertow._src.types.devices import device
from undertow._src.types.dtypes import dtype
from undertow._src.types.layouts import layout, memory_format
from undertow._src.types.sizes import Size
from undertow._src.types.symbols import SymBool, SymFloat, SymInt
from undertow._tensor import Tensor
from undertow.storage import UntypedStorage

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_layout: TypeAlias = layout
_int: TypeAlias = builtins.int
_float: TypeAlias = builtins.float
_bool: TypeAlias = builtins.bool
_complex: TypeAlias = builtins.complex

IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType: TypeAlias = SymInt | SymFloat | SymBool
Storage = UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "memory_format"]
