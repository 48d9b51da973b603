"""Conversion of tensors: to a different dtype, device or memory format."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from undertow._src.arrays.device.placement import gpus
from undertow._src.engine.arguments import check_tensor, invalid_combination, tensor_type
from undertow._src.ops.convert import cast
from undertow._src.ops.placement import moved
from undertow._src.ops.public import public
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.methods.layout import format_of
from undertow._src.types import dtypes
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import DTYPE_OF, as_dtype, dtype
from undertow._src.types.layouts import axes_of, preserve_format
from undertow._src.types.layouts import memory_format as MemoryFormat

_NO_ACCELERATOR = "Cannot access accelerator device when none is available."


def device_named(given: Any) -> Device:
    """Return the device that a program names, if tensors can live on it."""
    device = (
        given if type(given) is Device else Device("cuda", given) if type(given) is int and gpus() else Device(given)
    )
    if device.type == "cuda" and device.index is None:
        device = Device("cuda", 0)
    return device


# Devices that PyTorch knows by name but has no kernels for, and how errors spell them.
_WITHOUT_KERNELS = {
    "mps": "MPS", "ipu": "IPU", "fpga": "FPGA", "maia": "MAIA", "ve": "VE", "vulkan": "Vulkan", "lazy": "Lazy",
}  # fmt: skip


def check_device(given: Any, makes: bool = False) -> None:
    """Accept the CPU (or None) and what JAX can use; refuse the rest as a PyTorch without accelerators does.

    `makes`: a tensor is to be made there, not moved there.
    """
    if given is None or given == "cpu":
        return
    device = device_named(given)
    if device.type == "meta":
        return
    if device.type == "xla" and importlib.util.find_spec("jax"):
        return
    if device.type == "cuda":
        if gpus():
            if (device.index or 0) >= gpus():
                raise RuntimeError(f"CUDA error: invalid device ordinal: there are {gpus()} GPUs, got {device}")
            return
        raise AssertionError("Torch not compiled with CUDA enabled")
    if device.type in ("xpu", "mtia"):
        raise AssertionError(f"Torch not compiled with {device.type.upper()} enabled")
    if device.type in ("hpu", "privateuseone"):
        raise ModuleNotFoundError(f"No module named 'torch.{device.type}'")
    if device.type in _WITHOUT_KERNELS and (makes or device.type == "lazy"):
        raise NotImplementedError(
            f"Could not run 'aten::empty.memory_format' with arguments from the '{_WITHOUT_KERNELS[device.type]}' backend."
        )
    if device.type != "cpu":
        raise RuntimeError(f"PyTorch is not linked with support for {device.type} devices")


def converted(tensor: Any, kind: dtype | None, copy: bool = False, order: MemoryFormat | None = None) -> Any:
    """Return the tensor in a different dtype; itself if nothing changes and no copy is requested."""
    array = tensor._array
    target = array.dtype if kind is None else kind.numpy
    order = None if order is preserve_format else order
    if target == array.dtype and not copy and (order is None or format_of(array) is order):
        return tensor
    return cast(tensor, target, None if order is None else axes_of(order, array.ndim))


def _cast_method(kind: dtype, name: str) -> Callable[..., Any]:
    def method(self: Any, *, memory_format: MemoryFormat = preserve_format) -> Any:
        return converted(self, kind, order=memory_format)

    method.__name__, method.__qualname__ = name, f"ConvertMethods.{name}"
    method.__doc__ = f"The tensor as {kind}; itself if it is that already."
    return public(method)


class ConvertMethods(TensorCore):
    """Casts and moves."""

    __slots__ = ()

    float = _cast_method(dtypes.float32, "float")
    double = _cast_method(dtypes.float64, "double")
    half = _cast_method(dtypes.float16, "half")
    bfloat16 = _cast_method(dtypes.bfloat16, "bfloat16")
    int = _cast_method(dtypes.int32, "int")
    long = _cast_method(dtypes.int64, "long")
    short = _cast_method(dtypes.int16, "short")
    char = _cast_method(dtypes.int8, "char")
    byte = _cast_method(dtypes.uint8, "byte")
    bool = _cast_method(dtypes.bool, "bool")
    cfloat = _cast_method(dtypes.complex64, "cfloat")
    cdouble = _cast_method(dtypes.complex128, "cdouble")

    @public
    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Convert dtype and device: `to(dtype)`, `to(device, dtype)` or `to(other)`, with non_blocking and copy."""
        given = _parse_to(args, kwargs)
        check_device(given.get("device"))
        kind = given.get("dtype")
        where = given.get("device")
        where = self.device if where is None else device_named(where)
        if where.type == "meta":
            kind = None if kind is None else as_dtype(kind, "to", "dtype")
            return importlib.import_module("undertow._src.tensor.meta_tensor").moved_to_meta(self, kind)
        changed = converted(
            self, None if kind is None else as_dtype(kind, "to", "dtype"),
            given.get("copy", False) and where is self.device, given.get("memory_format"),
        )  # fmt: skip
        return changed if where is self.device else moved(changed, where)

    @public
    def type(self, dtype: Any = None, non_blocking: Any = False, **kwargs: Any) -> Any:
        """Return the name of the tensor's type, or the tensor as a given dtype, tensor type, or the name of one."""
        if dtype is None:
            return tensor_type(self)
        return converted(self, _named_type(dtype))

    @public
    def type_as(self, other: Any) -> Any:
        """Return the tensor in the dtype of `other`, on its device."""
        check_tensor(other, "type_as", "other")
        if self.device is not other.device:
            return self.to(other.device, other.dtype)
        return converted(self, DTYPE_OF[other._array.dtype])

    @public
    def cpu(self, memory_format: MemoryFormat = preserve_format) -> Any:
        """Return the tensor on the CPU: itself if it is there."""
        return converted(self, None, order=memory_format) if self.device is cpu else moved(self, cpu)

    @public
    def cuda(self, device: Any = None, non_blocking: Any = False, memory_format: Any = preserve_format) -> Any:
        """Return the tensor on a GPU."""
        if isinstance(device, int) and not gpus():
            raise RuntimeError(_NO_ACCELERATOR)
        check_device("cuda" if device is None else device)
        where = device_named("cuda" if device is None else device)
        if where.type != "cuda":
            raise RuntimeError(f"Invalid device, must be cuda device, got {device}")
        return self if where is self.device else moved(self, where)

    @public
    def xpu(self, device: Any = None, non_blocking: Any = False, memory_format: Any = preserve_format) -> Any:
        check_device("xpu")

    @public
    def to_dense(self, dtype: Any = None, *, masked_grad: Any = True) -> Any:
        """Return the tensor itself: it is dense already."""
        return converted(self, dtype)


_TO_FORMS = (  # the positions of the arguments, by the type of the first one
    (dtype, ("dtype", "non_blocking", "copy")),
    (TensorCore, ("other", "non_blocking", "copy")),
    (object, ("device", "dtype", "non_blocking", "copy")),
)
_PYTHON_TYPES = (bool, int, float, complex)


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if args:
        first = args[0]
        names = next(names for kind, names in _TO_FORMS if isinstance(first, kind) or first in _PYTHON_TYPES)
        given = dict(zip(names, args, strict=False))
        fits = len(args) <= len(names) and isinstance(given.get("copy", False), bool)
        if not fits or not isinstance(given.get("non_blocking", False), bool):
            raise invalid_combination("to", args, kwargs)
    allowed = {"device", "dtype", "non_blocking", "copy", "memory_format"}
    if not kwargs.keys() <= allowed or kwargs.keys() & given.keys():
        raise invalid_combination("to", args, kwargs)
    given.update(kwargs)
    other = given.get("other")
    if other is not None:
        given["dtype"] = DTYPE_OF[other._array.dtype]
        given["device"] = other.device
    return given


def _named_type(given: Any) -> dtype:
    """Return the dtype of a tensor type such as `torch.DoubleTensor`, or of its name."""
    if isinstance(given, dtype):
        return given
    kind = getattr(given, "dtype", None)
    if isinstance(kind, dtype):
        return kind
    if not isinstance(given, (str, type)):
        raise TypeError("dtype must be a type, str, or dtype object")
    name = given if isinstance(given, str) else given.__name__
    space, _, short = name.rpartition(".")
    if space == "torch.cuda":
        check_device("cuda")
    found = getattr(getattr(sys.modules["undertow"], short, None), "dtype", None) if space == "torch" else None
    if not isinstance(found, dtype):
        raise ValueError(f"invalid type: '{name}'")
    return found
