"""Which array library a rule runs on, by the type of its arrays.

NumPy serves every type that is not registered. JAX's types are registered when `jax/namespace.py` is imported, which
their first array triggers; until then nothing here imports it. Undertow's own tensors, for a backward pass that is
itself recorded, have an explicit function.
"""

from __future__ import annotations

import importlib
from functools import cache
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.types.devices import device as Device
from undertow._src.arrays.device.array import DeviceArray, applied, device_among
from undertow._src.arrays.device.layout import laying_out
from undertow._src.arrays.device.memory import jax_module, jax_namespace

# The namespaces of other libraries' arrays.
FOREIGN = dict.fromkeys(("jax", "jaxlib"), "undertow._src.arrays.jax.namespace")

_namespaces: dict[type, Any] = {
    np.ndarray: numpy_xp, type(None): numpy_xp, float: numpy_xp, int: numpy_xp,
}  # fmt: skip


def register(kind: type, namespace: Any) -> None:
    """Register the namespace for arrays of a type."""
    _namespaces[kind] = namespace


def namespace_of(arrays: Iterable[Any]) -> Any:
    """Return the namespace of the first array that is not NumPy's, else NumPy's. Its results are on `device_among`."""
    arrays = [*arrays]
    for array in arrays:
        kind = type(array)
        if kind is DeviceArray:
            return namespace_on(device_among(arrays))
        found = _namespaces.get(kind) or (array.xp if is_batched(array) else _find(kind))
        if found is not numpy_xp:
            return found
    return numpy_xp


class DeviceNamespace:
    """The functions of `jax/namespace.py` on device arrays, wrapped on demand; their results are on one device."""

    RECORDED = False

    def __init__(self, device: Device | None) -> None:
        self.device = device

    def __getattr__(self, word: str) -> Any:
        now = getattr(numpy_xp, word, None)
        function = laying_out(
            word, applied(getattr(jax_namespace(), word), self.device, now if callable(now) else None)
        )
        setattr(self, word, function)
        return function

    def dtype_of(self, x: Any) -> np.dtype[Any]:
        return np.dtype(x.dtype)


@cache
def namespace_on(device: Device | None) -> DeviceNamespace:
    """Return the namespace for arrays of a device; for None, of the traced program."""
    return DeviceNamespace(device)


def run_formula(
    key: tuple[Any, Any, Hashable], formula: Callable[[Any, Any], Any], given: Any, passes_first: bool = False
) -> Any:
    """Return a formula of arrays on a device, computed by one program; NotImplemented: it has to run as written."""
    return jax_module("eager_programs").run_formula(key, formula, given, passes_first)


@cache
def tensor_namespace() -> Any:
    """Return the namespace of undertow's own tensors, which imports most of the public functions."""
    return importlib.import_module("undertow._src.arrays.tensor.namespace")


def is_batched(array: Any) -> bool:
    """Return whether an array stands for many rows: a `BatchedArray`, which is imported with the first one."""
    return hasattr(type(array), "BATCHED")


def batched_namespace(inner: Any, size: int, wrap: Callable[[Any], Any], is_legacy: bool) -> Any:
    """Return the namespace for a number of rows at once, each of them an array of another namespace."""
    return importlib.import_module("undertow._src.arrays.batched.rules").BatchedNamespace(inner, size, wrap, is_legacy)


def _find(kind: type) -> Any:
    """Return the namespace of a new type, by the library that it or one of its bases is from."""
    for base in kind.__mro__:
        home = FOREIGN.get(base.__module__.partition(".")[0])
        if home is not None:
            _namespaces[kind] = importlib.import_module(home)
            return _namespaces[kind]
    _namespaces[kind] = numpy_xp
    return numpy_xp
