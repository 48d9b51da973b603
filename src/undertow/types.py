"""Names for the types in annotations: what counts as a number, a device, a size."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from undertow._src.types.devices import device
from undertow._src.types.dtypes import dtype
from undertow._src.types.layouts import layout, memory_format
from undertow._src.types.sizes import Size
from undertow._src.types.symbols import SymBool, SymFloat, SymInt
from undertow._tensor import Tensor
from undertow.storage import UntypedStorage

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
