"""Tensors from data: Python numbers and nested sequences of them, NumPy arrays, buffers, other libraries' arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.arrays.namespaces import namespace_of
from undertow._src.arrays.quiet import quietly
from undertow._src.base import tracer
from undertow._src.base.modes import no_grad
from undertow._src.base.sites import warn, warn_once
from undertow._src.engine.arguments import element_in_trace
from undertow._src.tensor import dlpack
from undertow._src.tensor.core import TensorCore, tensor_class
from undertow._src.tensor.factory_arguments import check_options, from_data, made, parse_kind
from undertow._src.tensor.methods.convert import converted
from undertow._src.tensor.methods.python import element
from undertow._src.types.devices import cpu
from undertow._src.types.dtypes import DTYPE_OF, SCALAR_DTYPE, as_dtype, dtype, get_default_dtype, promote
from undertow._src.types.dtypes import bool as bool_dtype
from undertow._src.types.dtypes import uint64 as uint64_dtype
from undertow.storage import Array, UntypedStorage, adopt, flat_memory, is_storage, unset

_NUMBERS = frozenset({int, float, bool, complex})
_LISTS = frozenset({list, tuple, range})
_MAX_DIMS = 128


@from_data
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False
) -> Any:
    """Return a new tensor holding a copy of data."""
    kind = None if dtype is None else parse_kind(dtype, "tensor")
    check_options("tensor", device, None, pin_memory)
    if isinstance(data, TensorCore):
        warn_of_copy_construction("torch.tensor(sourceTensor)")
    return made(copied(data, kind), "tensor", requires_grad, device)


def warn_of_copy_construction(instead_of: str) -> None:
    warn(
        "To copy construct from a tensor, it is recommended to use tensor.detach().clone() (with "
        f".requires_grad_(True) after it if need be), not {instead_of}."
    )


@from_data
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """Return data as a tensor, sharing the buffer of tensors and NumPy arrays where the dtype allows it."""
    kind = None if dtype is None else parse_kind(dtype, "as_tensor")
    check_options("as_tensor", device)
    if isinstance(data, TensorCore):
        return data.to(device or data.device, kind or data.dtype)
    if isinstance(data, np.ndarray):
        return converted(made(_shared(data), "as_tensor", where=device), kind)
    return made(copied(data, kind), "as_tensor", where=device)


@from_data
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: Any = None
) -> Any:
    """Return anything array-like as a tensor: shared where possible, copied where requested (`copy=True`) or needed."""
    kind = None if dtype is None else parse_kind(dtype, "asarray")
    check_options("asarray", device)
    if isinstance(obj, np.generic):
        obj = np.asarray(obj)
    elif isinstance(obj, UntypedStorage):
        obj = flat_memory(obj.root)
    result: Any
    if isinstance(obj, TensorCore):
        result = obj if device is None else obj.to(device)
        if requires_grad is None and obj._requires_grad:
            warn(
                "torch.asarray: unspecified requires_grad now defaults to that of obj. Pass requires_grad=False if the "
                "result should not require a gradient."
            )
            requires_grad = True
    elif isinstance(obj, np.ndarray):
        result = made(_shared(obj), "asarray", where=device)
    elif hasattr(obj, "__dlpack__"):
        result = made(dlpack.adopted(obj), "asarray", where=device)
    elif not isinstance(obj, (str, list, tuple, range)) and _has_buffer(obj):
        result = made(_buffer(obj, kind or get_default_dtype(), -1, 0), "asarray", where=device)
        kind = None
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return made(copied(obj, kind), "asarray", requires_grad or False, device)
    own = DTYPE_OF[result._array.dtype]
    if copy is False and kind is not None and kind is not own:
        raise ValueError(f"can't alias tensor with dtype '{own.scalar_name}' into dtype '{kind.scalar_name}'.")
    if copy or (kind is not None and kind is not own):
        result = converted(result, kind, copy=True)
    if not requires_grad and result._requires_grad:
        return result.detach()
    if requires_grad and not result._requires_grad:
        result = result.detach() if result is obj else result
        return result._with_requires_grad(True)
    return result


def from_numpy(ndarray: Any) -> Any:
    """Return a tensor over the buffer of a NumPy array."""
    if not isinstance(ndarray, np.ndarray):
        name = type(ndarray).__name__
        raise TypeError(f"expected np.ndarray (got {'numpy.' * isinstance(ndarray, np.generic)}{name})")
    return made(_shared(ndarray), "from_numpy", where=cpu)


def frombuffer(buffer: Any, *, dtype: Any = None, count: int = -1, offset: int = 0, requires_grad: Any = False) -> Any:
    """Return a tensor over an object with Python's buffer protocol."""
    if dtype is None:
        raise TypeError('frombuffer() missing 1 required positional arguments: "dtype"')
    kind = as_dtype(dtype, "frombuffer", "dtype")
    if not _has_buffer(buffer):
        raise ValueError("object does not implement Python buffer protocol.")
    return made(_buffer(buffer, kind, count, offset), "frombuffer", requires_grad, cpu)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """Return a tensor over the buffer of a foreign array, or of a DLPack capsule."""
    check_options("from_dlpack", device)
    array = dlpack.adopted(ext_tensor)
    if array.dtype not in DTYPE_OF:
        raise BufferError(f"from_dlpack: undertow has no dtype for {array.dtype}")
    return made(array.copy() if copy else array, "from_dlpack", where=device or cpu)


# --- arrays


def _shared(array: Array) -> Array:
    """Return a NumPy array that shares the given one's buffer, warning if it is read-only."""
    DTYPE_OF[array.dtype]  # raises PyTorch's error for a dtype that undertow lacks
    _check_strides(array)
    if not array.flags.writeable:
        warn_once(
            "The given NumPy array is not writable, and tensors cannot be read-only. The effect of a write to this tensor "
            "is undefined: pass a copy of the array, or make it writable first."
        )
    return adopt(array)


def _check_strides(array: Array) -> None:
    if any(step < 0 for step in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, which tensors' strides are not "
            "allowed to be. Pass array.copy() instead."
        )
    if any(step % array.itemsize for step in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of its element size. Pass array.copy() instead, "
            "which is contiguous."
        )


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _buffer(buffer: Any, kind: dtype, count: int, offset: int) -> Array:
    view = memoryview(buffer)
    length, size = view.nbytes, kind.itemsize
    if length <= 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
                f"size ({size})"
            )
    elif offset + count * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    if view.readonly:
        warn(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. A write to this tensor "
            "would change a buffer meant to be read-only: pass a copy of the buffer, or make it writable first."
        )
    return adopt(np.frombuffer(buffer, kind.numpy, count, offset))


# --- nested sequences


def copied(data: Any, kind: dtype | None) -> Array:
    """Return a new array holding the data, in the requested dtype or the one the data suggest."""
    if isinstance(data, TensorCore):
        with no_grad():
            return converted(data, kind, copy=True)._array
    if isinstance(data, np.ndarray):
        own = DTYPE_OF[data.dtype]
        _check_strides(data)
        data = np.asarray(data)  # only the values of a memmap or a matrix
        if kind is None or kind is own:
            return data.copy("K")
        return quietly((data.real if own.is_complex and not kind.is_complex else data).astype, kind.numpy)
    cls = type(data)
    if cls in _NUMBERS or (cls in _LISTS and _holds_plain_numbers(data)):
        try:
            array = np.array(data)
        except ValueError:  # ragged: the slow path reports where
            return _converted_slowly(data, kind)
        if array.dtype.kind in "bifc":
            if kind is None:
                kind = SCALAR_DTYPE[float] if not array.size else SCALAR_DTYPE[_PYTHON_TYPE[array.dtype.kind]]
            return array if array.dtype == kind.numpy else _cast(array, kind)
    return _converted_slowly(data, kind)


_PYTHON_TYPE: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}


def _holds_plain_numbers(data: Any) -> bool:
    """Whether a nested list holds only Python's own numbers, which NumPy reads as PyTorch does."""
    kinds = set(map(type, data))
    if kinds <= _NUMBERS:
        return True
    return kinds <= _LISTS and all(map(_holds_plain_numbers, data))


def _cast(array: Array, kind: dtype) -> Array:
    """Cast Python numbers to a dtype: integers out of range are refused, floats out of range become infinite."""
    if array.dtype.kind == "c" and not kind.is_complex and kind is not bool_dtype:
        raise TypeError("must be real number, not complex")
    if kind.category == 1 and array.size and array.dtype.kind in "if":
        limits = np.iinfo(kind.numpy)
        low = limits.min if kind.is_signed else -limits.max
        whole = np.trunc(array) if array.dtype.kind == "f" else array
        high = whole < float(limits.max) + 1 if kind.itemsize == 8 else whole <= limits.max
        if not (np.all(whole >= low) and np.all(high)):
            raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
        return (whole if array.dtype.kind == "i" else whole.astype(np.int64)).astype(kind.numpy)
    return quietly(array.astype, kind.numpy)


def _converted_slowly(data: Any, kind: dtype | None) -> Array:
    """Convert item by item, the general case: tensors, NumPy scalars and arrays in lists, and every error."""
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    sizes = _sizes(data)
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], np.ndarray):
        warn_once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Combine them with numpy.array() first."
        )
    if kind is None:
        kind = _inferred(data)
    if 0 in sizes:
        return np.empty(sizes, kind.numpy)
    flat: list[Any] = []
    _collect(data, sizes, 0, kind, flat)
    if kind is uint64_dtype:
        return np.array([value % 2**64 for value in flat], np.uint64).reshape(sizes)
    if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in flat) and not kind.is_inexact:
        raise ValueError("Overflow when unpacking long long")
    traced = {} if tracer.current is None else _in_trace(flat, kind)
    holder = {0: np.bool_, 1: None, 2: np.float64, 3: np.complex128}[kind.category]
    array = np.array([0 if place in traced else value for place, value in enumerate(flat)], holder)
    array = array if array.dtype == kind.numpy else _cast(array, kind)
    if traced:
        parts = [traced.get(place, element) for place, element in enumerate(array)]
        return namespace_of([*traced.values()]).stack(parts).reshape(sizes)
    return array.reshape(sizes)


def _in_trace(flat: list[Any], kind: dtype) -> dict[int, Any]:
    """Return the numbers that only the program of a traced step has, as arrays, by their places."""
    elements = {place: element_in_trace(value, kind.numpy) for place, value in enumerate(flat)}
    return {place: element for place, element in elements.items() if element is not None}


def _is_sequence(value: Any) -> bool:
    if isinstance(value, (TensorCore, np.generic, dict, set)):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _sizes(data: Any) -> list[int]:
    sizes: list[int] = []
    while _is_sequence(data):
        sizes.append(len(data))
        if len(sizes) > _MAX_DIMS:
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        if not sizes[-1]:
            break
        data = data[0]
    return sizes


def _inferred(data: Any) -> dtype:
    if isinstance(data, np.generic):
        return DTYPE_OF[data.dtype]
    if isinstance(data, (bool, int, float, complex)):
        return SCALAR_DTYPE[type(data)]
    if isinstance(data, TensorCore):
        return DTYPE_OF[data._array.dtype]
    if isinstance(data, np.ndarray):
        return DTYPE_OF[data.dtype]
    if isinstance(data, str):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not _is_sequence(data):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    found: dtype | None = None
    for item in data:
        if item is data:
            raise TypeError("new(): self-referential lists are incompatible")
        kind = _inferred(item)
        found = kind if found is None else promote(found, kind)
    return found or get_default_dtype()


def _collect(data: Any, sizes: list[int], dim: int, kind: dtype, flat: list[Any]) -> None:
    """Append the numbers of a nested sequence in order, checking that depth and lengths are uniform."""
    if dim == len(sizes):
        flat.append(_as_number(data, kind))
        return
    if not _is_sequence(data):
        raise TypeError("not a sequence")
    if len(data) != sizes[dim]:
        raise ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})")
    for item in data:
        _collect(item, sizes, dim + 1, kind, flat)


def _as_number(value: Any, kind: dtype) -> Any:
    if isinstance(value, TensorCore):
        return float(value) if kind.is_floating_point and value._requires_grad else element(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float, complex)):
        if isinstance(value, complex) and kind.category in (1, 2):
            raise TypeError("must be real number, not complex")
        return bool(value) if kind is bool_dtype else value
    if kind.category == 1:
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
    raise TypeError(f"must be real number, not {type(value).__name__}")


def legacy_tensor(args: tuple[Any, ...], kwargs: dict[str, Any], kind: dtype, strict: bool) -> Any:
    """Construct `torch.Tensor(...)` and its relatives: from a size, data, or a tensor.

    strict: refuse a tensor of a different dtype; `torch.Tensor` itself takes any.
    """
    check_options("new", kwargs.pop("device", None))
    if kwargs.keys() - {"size", "data", "other"}:
        raise TypeError(f"new() got an unexpected keyword argument '{next(iter(kwargs))}'")
    given = (*args, *kwargs.values())
    if not given:
        return made(np.empty(0, kind.numpy), "new")
    first = given[0]
    if len(given) == 1:
        if isinstance(first, TensorCore):
            own = DTYPE_OF[first._array.dtype]
            if strict and own is not kind:
                raise TypeError(f"expected TensorOptions(dtype={kind.name}) (got TensorOptions(dtype={own.name}))")
            return tensor_class().as_subclass(first, tensor_class())
        if is_storage(first):
            return made(flat_memory(first.untyped().root).view(kind.numpy), "new")
        if type(first).__name__ != "Size" and not (isinstance(first, int) and not isinstance(first, bool)):
            if isinstance(first, str):
                raise TypeError(f"new(): invalid data type '{type(first).__name__}'")
            if not _is_sequence(first):
                if isinstance(first, np.integer):
                    return made(unset(np.empty(int(first), kind.numpy)), "new")
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
            if "size" not in kwargs:
                return made(copied(_listed(first), kind), "new")
    sizes = tuple(first) if isinstance(first, (tuple, list)) else given
    for place, n in enumerate(sizes):
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
            raise TypeError(
                f"new(): argument 'size' failed to unpack the object at pos {place + 1} with error \"type must be tuple "
                f'of ints,but got {type(n).__name__}"'
            )
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(sizes)}")
    return made(unset(np.empty(sizes, kind.numpy)), "new")


def _listed(data: Any) -> Any:
    return data if isinstance(data, np.ndarray) else list(data)


__all__ = [
    "as_tensor", "asarray", "copied", "from_dlpack", "from_numpy", "frombuffer", "legacy_tensor", "tensor",
    "warn_of_copy_construction",
]  # fmt: skip
