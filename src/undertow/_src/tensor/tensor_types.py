"""The legacy tensor types: `torch.FloatTensor` and its relatives, which make tensors of one dtype and recognise them."""

from __future__ import annotations

import builtins
import copyreg
from typing import Any

from undertow._src.base.sites import warn_once
from undertow._src.base.torch_named import pickled_class
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.from_data import legacy_tensor
from undertow._src.types import dtypes
from undertow._src.types.dtypes import DTYPE_OF, dtype, set_default_dtype
from undertow._src.types.layouts import layout, strided


class tensortype(type):
    """The metaclass of the legacy tensor types: calling one makes a tensor of its dtype; such tensors are its instances."""

    __module__ = "torch"
    dtype: dtype
    layout: layout
    is_cuda: builtins.bool

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return legacy_tensor(args, kwargs, cls.dtype, strict=True)

    def __instancecheck__(cls, instance: Any) -> builtins.bool:
        return isinstance(instance, TensorCore) and DTYPE_OF[instance._array.dtype] is cls.dtype


copyreg.pickle(tensortype, pickled_class)


def _tensor_type(kind: dtype) -> Any:
    body = {"dtype": kind, "layout": strided, "is_cuda": False, "is_sparse": False, "__module__": "torch"}
    return tensortype(f"{kind.scalar_name}Tensor", (), body)


ByteTensor, CharTensor, BoolTensor = (_tensor_type(kind) for kind in (dtypes.uint8, dtypes.int8, dtypes.bool))
ShortTensor, IntTensor, LongTensor = (_tensor_type(kind) for kind in (dtypes.int16, dtypes.int32, dtypes.int64))
HalfTensor, BFloat16Tensor = _tensor_type(dtypes.float16), _tensor_type(dtypes.bfloat16)
FloatTensor, DoubleTensor = _tensor_type(dtypes.float32), _tensor_type(dtypes.float64)

_BY_NAME = {
    f"torch.{each.__name__}": each
    for each in (
        ByteTensor, CharTensor, BoolTensor, ShortTensor, IntTensor, LongTensor, HalfTensor, BFloat16Tensor, FloatTensor,
        DoubleTensor,
    )
}  # fmt: skip


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by a legacy tensor type."""
    if isinstance(t, str):
        if t not in _BY_NAME:
            raise ModuleNotFoundError(f"No module named '{t}'")
        t = _BY_NAME[t]
    if not isinstance(t, tensortype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1: call torch.set_default_dtype() and "
        "torch.set_default_device()."
    )
    set_default_dtype(t.dtype)


def is_tensor(obj: Any) -> builtins.bool:
    """Whether an object is a tensor."""
    return isinstance(obj, TensorCore)


def typename(obj: Any) -> str:
    """Return the name of an object's type, `torch.FloatTensor` for tensors."""
    if isinstance(obj, TensorCore):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    module = getattr(obj, "__module__", None) or cls.__module__
    name = getattr(obj, "__qualname__", cls.__qualname__)
    return name if module in ("builtins", "__builtin__", None) else f"{module}.{name}"
