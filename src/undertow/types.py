"""Names for the types in annotations: what counts as a number, a device, a size."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from undertow._tensor import Tensor
from undertow.devices import device
from undertow.dtypes import dtype
from undertow.layouts import layout, memory_format
from undertow.sizes import Size
from undertow.storage import UntypedStorage
from undertow.symbols import SymBool, SymFloat, SymInt

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_dtype, _device, _layout, _size = dtype, device, layout, Size | list[int] | tuple[int, ...]
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex

Number: TypeAlias = int | float | bool
IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType: TypeAlias = SymInt | SymFloat | SymBool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = Any
Storage = UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "memory_format"]
