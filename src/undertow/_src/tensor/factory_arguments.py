"""What factories share: sizes, dtypes, devices, `out=`, and the making of the new tensor."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.placement import Home, empty_beside, placed
from undertow._src.arrays.quiet import quietly
from undertow._src.base.errors import cannot_allocate
from undertow._src.base.modes import local, slow_path
from undertow._src.engine.arguments import as_ints, binding_error, is_listed_int, must_be
from undertow._src.engine.outputs import bump
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import InferenceStorage, TensorCore, wrap
from undertow._src.tensor.methods.convert import check_device, device_named
from undertow._src.types.devices import _defaults, cpu, device
from undertow._src.types.dtypes import DTYPE_OF, as_dtype, dtype, get_default_dtype
from undertow._src.types.layouts import CHANNELS_LAST, axes_of, layout, memory_format, strided
from undertow.storage import Array, with_strides

F = TypeVar("F", bound=Callable[..., Any])


def from_data(function: F) -> F:
    """Return a public function whose arguments are data: function modes may override it, tensor classes may not."""

    @functools.wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        if slow_path.count and local.modes.function_modes:
            return torch_function.dispatch(asked, args, kwargs)
        try:
            result = function(*args, **kwargs)
        except TypeError as error:
            assert error.__traceback__ is not None
            if error.__traceback__.tb_next is not None:
                raise
            binding_error(function, args, kwargs, several=False)
        return result if slow_path.dispatcher is None else slow_path.dispatcher.lifted(result)

    return asked  # type: ignore[return-value]


def parse_size(given: tuple[Any, ...], size: Any, name: str) -> tuple[int, ...]:
    """Return the size of `f(2, 3)`, `f((2, 3))` and `f(size=(2, 3))`."""
    if size is not None:
        if given:
            raise TypeError(f"{name}() got multiple values for argument 'size'")
        sizes = as_ints(size, name, "size", None)
    elif not given:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    elif is_listed_int(given[0]):
        sizes = as_ints(given, name, "size")
    elif len(given) > 1:
        raise TypeError(f"{name}() takes 1 positional argument but {len(given)} were given")
    else:
        sizes = as_ints(given[0], name, "size")
    return check_size(sizes, name)


def check_size(sizes: tuple[int, ...], name: str) -> tuple[int, ...]:
    for n in sizes:
        if n < 0:
            if name == "zeros":
                raise RuntimeError("zeros: Dimension size must be non-negative.")
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(sizes)}")
    count = math.prod(sizes)
    if count >= 2**60:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)}")
    if count >= 2**46:  # no machine has so much memory
        raise cannot_allocate(f"{count} elements")
    return sizes


def parse_kind(kind: Any, name: str, default: dtype | None = None) -> dtype:
    """Return the requested dtype, or the default."""
    if kind is None:
        return default or get_default_dtype()
    return kind if type(kind) is dtype else as_dtype(kind, name, "dtype")


_FROM_DATA = ("tensor", "as_tensor", "asarray", "from_dlpack")  # these make a tensor on the CPU and move it


def check_options(name: str, where: Any, order: Any = None, pin_memory: Any = False) -> None:
    """Refuse devices and layouts that undertow lacks."""
    if where is None:
        where = _defaults.stack[-1]
    if where is not cpu:
        if not isinstance(where, (str, int, device)) or isinstance(where, bool):
            raise must_be("torch.device", where, name, "device")
        check_device(where, makes=name not in _FROM_DATA)
    if order is not None and order is not strided:
        if not isinstance(order, layout):
            raise must_be("torch.layout", order, name, "layout")
        raise RuntimeError(f"{name}: undertow's tensors are strided, got layout {order}")
    if pin_memory:
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend to pin memory for; there is none on "
            "this system."
        )


def device_of_new(where: Any) -> device:
    """Return the device of a new tensor: the one that is named, or the default."""
    where = _defaults.stack[-1] if where is None else where
    return where if where is cpu else device_named(where)


def has_no_values(where: Any) -> bool:
    """Whether a new tensor is on the device `meta`: nothing is drawn or filled there."""
    return device_of_new(where).type == "meta"


def without_values(sizes: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """Return an array of which only shape, strides and dtype count."""
    return importlib.import_module("undertow._src.arrays.unvalued").without_values(sizes, kind)  # rarely needed


def made(array: Any, name: str, requires_grad: Any = False, where: Any = None) -> Any:
    """Return a new tensor over a new array, on a device."""
    where = device_of_new(where)
    if where is not cpu:
        if where.type == "meta":
            tensor = importlib.import_module("undertow._src.tensor.meta_tensor").as_meta(array)
            return tensor._with_requires_grad(True) if requires_grad else tensor
        if where.type != "cpu" and not (type(array) is DeviceArray and array.device is where):
            array = placed(array, where)
    if not array.size and type(array) is np.ndarray and array.base is None:
        array = with_strides(array)
    if slow_path.count:
        with Home(None):
            tensor = wrap(array)
    else:
        tensor = wrap(array)
    if requires_grad:
        if requires_grad is not True:
            raise must_be("bool", requires_grad, name, "requires_grad")
        if not DTYPE_OF[tensor._array.dtype].is_inexact:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        tensor._requires_grad = True
    if slow_path.count and local.modes.inference:
        tensor._storage = InferenceStorage()
    return tensor


def into_out(out: Any, array: Any, name: str, kind: Any = None) -> Any:
    """Write a factory's values into `out`, which is resized to their shape."""
    if not isinstance(out, TensorCore):
        raise must_be("Tensor", out, name, "out")
    own = DTYPE_OF[out._array.dtype]
    if kind is not None and kind is not own:
        raise RuntimeError(f"dtype {kind.scalar_name} does not match dtype of out parameter ({own.scalar_name})")
    if out._requires_grad and local.modes.grad_enabled:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation. Pass an `out` that does "
            "not require grad."
        )
    if out._array.shape != array.shape:
        out._array = empty_beside(out._array, array.shape)
    np.copyto(out._array, array, casting="unsafe")
    bump(out)
    return out


def empty_array(sizes: tuple[int, ...], kind: np.dtype[Any], order: memory_format | None = None) -> Array:
    """Return an uninitialised array in a memory format."""
    if order is None or order not in CHANNELS_LAST:
        return np.empty(sizes, kind)
    axes = axes_of(order, len(sizes))
    return np.empty([sizes[axis] for axis in axes], kind).transpose(np.argsort(axes))


def number(value: Any, name: str, argument: str, position: int | None = None) -> Any:
    """Return a Python number from anything PyTorch accepts as one.

    That is numbers, NumPy scalars, and 0-dim tensors without gradient.
    """
    if type(value) in (int, float, bool, complex):
        return value
    if isinstance(value, TensorCore) and not value._array.ndim and not value._requires_grad:
        return value._array.item() if value._array.dtype.kind != "V" else float(value._array[()])
    if isinstance(value, (int, float, complex)):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufcV":
        return value.item()
    raise must_be("Number", value, name, argument, position)


def scalar_array(value: Any, kind: dtype) -> Array:
    """Return a 0-dim array of a dtype holding a number, wrapped around where PyTorch wraps around."""
    if isinstance(value, complex) and not kind.is_complex:
        value = value.real
    if kind.category == 1 and not isinstance(value, int):
        value = int(value)
    if kind.category == 1 and isinstance(value, int):
        return np.array(value % 2**64, np.uint64).astype(kind.numpy)
    return quietly(np.array(value).astype, kind.numpy)
