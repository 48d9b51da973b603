"""`torch._utils`: helpers of PyTorch that packages import."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from _compat_pickle import IMPORT_MAPPING as IMPORT_MAPPING
from _compat_pickle import NAME_MAPPING as NAME_MAPPING
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from undertow._src.base.sites import warn
from undertow._src.ops.complex import view_as_real
from undertow._src.ops.join import cat
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.from_data import from_numpy
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import dtype as Dtype
from undertow._tensor import Tensor
from undertow.serialization.rebuild import rebuild_from_type as _rebuild_from_type_v2
from undertow.serialization.rebuild import rebuild_meta_tensor as _rebuild_meta_tensor_no_storage  # noqa: F401
from undertow.serialization.rebuild import rebuild_parameter as _rebuild_parameter  # noqa: F401
from undertow.serialization.rebuild import (
    rebuild_parameter_with_state as _rebuild_parameter_with_state,  # noqa: F401
)
from undertow.serialization.rebuild import rebuild_sparse_tensor as _rebuild_sparse_tensor  # noqa: F401
from undertow.serialization.rebuild import rebuild_tensor as _rebuild_tensor  # noqa: F401
from undertow.serialization.rebuild import rebuild_tensor_v2 as _rebuild_tensor_v2  # noqa: F401
from undertow.serialization.rebuild import rebuild_tensor_v3 as _rebuild_tensor_v3  # noqa: F401
from undertow.sparse.coo import sparse_coo_tensor

__all__ = ["ExceptionWrapper", "KeyErrorMessage", "classproperty"]


def _rebuild_from_type(func: Any, type: Any, args: Any, dict: Any) -> Any:
    """Return a tensor of a subclass from a legacy file."""
    return _rebuild_from_type_v2(func, type, args, dict)


def _rebuild_device_tensor_from_numpy(data: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    """Return a tensor from its values in NumPy's memory."""
    return from_numpy(data).to(dtype=dtype, device=device).requires_grad_(requires_grad)


def get_tensor_metadata(tensor: Any) -> dict[Any, Any]:
    """Return the metadata that a file stores with a tensor: its conj and neg bits."""
    if not isinstance(tensor, TensorCore):
        raise AssertionError("Expected a torch.Tensor")
    flags: dict[Any, Any] = {}
    if tensor.is_conj():
        flags["conj"] = True
    if tensor.is_neg():
        flags["neg"] = True
    return flags


def _get_async_or_non_blocking(function_name: str, non_blocking: bool, kwargs: dict[str, Any]) -> bool:
    """Return `non_blocking`, or the value of its deprecated name `async`."""
    if not kwargs:
        return non_blocking
    if list(kwargs) != ["async"]:
        wrong = next(name for name in kwargs if name != "async")
        raise TypeError(f"{function_name}() got an unexpected keyword argument '{wrong}'")
    warn("'async' is deprecated; use 'non_blocking'")
    return bool(kwargs["async"])


# --- many tensors as one


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """Return all elements of several tensors in one 1-d tensor."""
    return cat([tensor.contiguous().view(-1) for tensor in tensors]) if len(tensors) != 1 else tensors[0].reshape(-1)


def _unflatten_dense_tensors(flat: Any, tensors: Iterable[Any]) -> tuple[Any, ...]:
    """Split a 1-d tensor into views with the shapes of other tensors."""
    parts, place = [], 0
    for tensor in tensors:
        parts.append(flat.narrow(0, place, tensor.numel()).view_as(tensor))
        place += tensor.numel()
    return tuple(parts)


def _take_tensors(tensors: Iterable[Any], size_limit: int) -> Iterator[list[Any]]:
    """Yield groups of tensors of one type, each up to a number of bytes unless it has one tensor only."""
    groups: dict[str, list[Any]] = {}
    sizes: dict[str, int] = {}
    for tensor in tensors:
        kind, size = tensor.type(), tensor.numel() * tensor.element_size()
        if groups.get(kind) and sizes[kind] + size > size_limit:
            yield groups.pop(kind)
        groups.setdefault(kind, []).append(tensor)
        sizes[kind] = (sizes[kind] if len(groups[kind]) > 1 else 0) + size
    yield from groups.values()


def _reorder_tensors_as(tensors: Iterable[Any], ordered_tensors: Iterable[Any]) -> tuple[Any, ...]:
    """Return tensors reordered so that their types follow those of `ordered_tensors`."""
    groups: dict[str, Iterator[Any]] = {}
    collected: dict[str, list[Any]] = {}
    for tensor in tensors:
        collected.setdefault(tensor.type(), []).append(tensor)
    groups = {kind: iter(members) for kind, members in collected.items()}
    return tuple(next(groups[tensor.type()]) for tensor in ordered_tensors)


def _element_size(dtype: Any) -> int:
    """Return the number of bytes of an element."""
    if not isinstance(dtype, Dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _handle_complex(tensor: Any) -> Any:
    """Return a complex tensor as real and imaginary parts; any other value unchanged."""
    return view_as_real(tensor) if isinstance(tensor, Tensor) and tensor.is_complex() else tensor


def _flatten_sparse_tensors(tensors: Sequence[Any]) -> tuple[Any, Any]:
    """Return the flattened indices of several sparse tensors, and their flattened values."""
    return (
        _flatten_dense_tensors([tensor._indices() for tensor in tensors]),
        _flatten_dense_tensors([tensor._values() for tensor in tensors]),
    )


def _unflatten_sparse_tensors(flat: tuple[Any, Any], tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return sparse tensors, shaped like others, from flattened indices and values."""
    indices = _unflatten_dense_tensors(flat[0], [tensor._indices() for tensor in tensors])
    values = _unflatten_dense_tensors(flat[1], [tensor._values() for tensor in tensors])
    rebuilt = zip(indices, values, tensors, strict=True)
    return tuple(sparse_coo_tensor(one, other, tensor.size()) for one, other, tensor in rebuilt)


def _chunk_or_narrow_cat(tensor: Any, num_chunks: int, narrow_dim: int, cat_dim: int = 0) -> Any:
    """Split a tensor along one dim, and join the parts along another."""
    return cat(tensor.chunk(num_chunks, narrow_dim), cat_dim)


# --- objects and calls


def _import_dotted_name(name: str) -> Any:
    """Return the object of a dotted name."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


def try_import(module_name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(module_name)
    except ImportError:
        return None


def _get_obj_state(obj: Any) -> Any:
    """Return the state of an object that pickle would store."""
    state = getattr(obj, "__getstate__", None)
    return state() if state is not None else vars(obj)


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Set the attributes of an object from a dict, or from a pair of dicts for attributes and slots."""
    plain, slots = state if isinstance(state, tuple) else (state, None)
    if not (isinstance(plain, dict) or plain is None):
        raise RuntimeError(f"Invalid serialized state: {state}")
    for key, value in {**(plain or {}), **(slots or {})}.items():
        setattr(obj, key, value)
    return obj


def render_call(fn: Any, args: Any, kwargs: dict[str, Any]) -> str:
    """Return a call as text, with tensors shown by their shapes."""

    def shown(value: Any) -> str:
        if isinstance(value, TensorCore):
            return f"tensor([...], size={tuple(value.shape)})"
        if type(value) in (list, tuple):
            inside = ", ".join(map(shown, value))
            return f"[{inside}]" if type(value) is list else f"({inside}{',' if len(value) == 1 else ''})"
        return repr(value)

    given = [*map(shown, args), *[f"{name}={shown(value)}" for name, value in kwargs.items()]]
    name = getattr(fn, "__name__", repr(fn))
    home = getattr(fn, "__module__", "") or ""
    return f"{'torch.' if home.startswith('undertow') or not home else ''}{name}({', '.join(given)})"


class CallbackRegistry:
    """Callbacks for an event; exceptions that they raise are logged."""

    def __init__(self, name: str) -> None:
        self.name, self.callback_list = name, list[Any]()

    def add_callback(self, cb: Any) -> None:
        self.callback_list.append(cb)

    def fire_callbacks(self, *args: Any, **kwargs: Any) -> None:
        """Call all callbacks."""
        for callback in self.callback_list:
            try:
                callback(*args, **kwargs)
            except Exception:
                logging.getLogger(__name__).exception(
                    "Exception in callback for %s registered with gpu trace", self.name
                )


def is_compiling() -> bool:
    """Whether the calling code is being compiled: never, it runs eagerly."""
    return False


def cpu_count() -> int | None:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


# --- devices


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> Any:
    """Return the index of an accelerator's device; for the CPU -1 if `allow_cpu`, otherwise raise."""
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.index is not None or device.type == "cpu":
            return -1 if device.type == "cpu" else device.index
        return 0
    if isinstance(device, int):
        return device
    if optional and device is None:
        return None
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")


def _get_available_device_type() -> str | None:
    """Return the type of the available accelerator: None."""
    return None


def _get_device_module(device_type: str) -> Any:
    """Return the module of functions for a kind of device: `torch.cpu`."""
    module = getattr(importlib.import_module("undertow"), device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module


_get_all_device_indices = _get_current_device_index = _get_available_device_type


# --- errors from other threads and processes


class KeyErrorMessage(str):
    """A message that a KeyError shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception of another thread or process, to be reraised here with its traceback as text."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = exc_info or sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> None:
        """Raise an exception of the same class."""
        raise self._with(f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}")

    def _with(self, message: str) -> BaseException:
        """Return an exception of the same class with a message, if the class takes one."""
        if self.exc_type is KeyError:
            return KeyError(KeyErrorMessage(message))
        if getattr(self.exc_type, "message", None):
            return self.exc_type(message=message)
        try:
            return self.exc_type(message)
        except Exception:  # it takes other arguments
            return RuntimeError(message)


class classproperty:
    """A property of a class, not of its instances."""

    def __init__(self, func: Any) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)
