"""Where arrays are: moved to a device, and the device of new arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from undertow._src.base import tracer, tree
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device
from undertow._src.base.modes import local
from undertow._src.arrays.device.array import DeviceArray, unwrapped
from undertow._src.arrays.device.memory import FEW, Range, jax_namespace


class HostedArray(np.ndarray[Any, Any]):
    """Memory on the host of a tensor that is on a device, nominally.

    A program that waits for a hook keeps its device busy, so what the hook computes is computed, and stays, on the host.
    """

    nominal: Device

    def __array_finalize__(self, source: Any) -> None:
        self.nominal = getattr(source, "nominal", cpu)


def hosted(array: Any, device: Device) -> Any:
    """Return an array on the host as that of a tensor on a device."""
    memory = np.asarray(array).view(HostedArray)
    memory.nominal = device
    return memory


def off_host(array: Any) -> Any:
    """Return an array where its tensor is, nominally; on the host while a program keeps the device busy."""
    return placed(array, array.nominal) if type(array) is HostedArray and not local.modes.device_is_busy else array


def on_busy_device(arrays: Iterable[Any]) -> Device | None:
    """Return the device of arrays that are computed with on the host."""
    for array in arrays:
        if type(array) is HostedArray:
            return array.nominal
        if type(array) is DeviceArray and local.modes.device_is_busy and array.device is not cpu:
            return array.device
    return None


def placed(array: Any, device: Device) -> Any:
    """Return a copy of an array's value on a device."""
    if tracer.current is not None and not local.modes.device_is_busy:  # a program runs on one device
        return DeviceArray(jax_namespace().constant(unwrapped(array)), cpu if device.type == "cpu" else device)
    value = array.value if type(array) is DeviceArray else array
    if device.type == "cpu":
        return np.array(value)
    if local.modes.device_is_busy:
        return hosted(np.array(value), device)
    jax = jax_namespace().jax
    if isinstance(value, jax.Array):
        return DeviceArray(jax.device_put(value, jax_device(device), may_alias=False), device)
    moved = DeviceArray(jax_namespace().constant(value, jax_device(device)), device)
    if value.dtype.kind in "iu" and 0 < value.size <= FEW:
        moved.buffer.range = Range(moved.buffer.value, value)
    return moved


def empty_beside(array: Any, shape: tuple[int, ...], ordered_as: Any = None) -> Any:
    """Allocate a buffer of a shape with an array's dtype and device; the order of its dims is that of a given array."""
    as_that = type(ordered_as) is np.ndarray
    memory = np.empty_like(ordered_as, array.dtype, shape=shape) if as_that else np.empty(shape, array.dtype)
    return placed(memory, array.device) if type(array) is DeviceArray else memory


def one_like(array: DeviceArray) -> Any:
    """Return a new array like one with a single element, that holds a one."""
    if tracer.current is not None:
        return np.ones_like(array)
    return DeviceArray(_one(array.shape, array.dtype, array.device), array.buffer.device)


@lru_cache(maxsize=64)
def _one(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Any:
    """Return the value of a loss's gradient; the same one for all losses, as values never change."""
    return jax_namespace().constant(np.ones(shape, dtype), jax_device(device))


def at_home(array: Any) -> Any:
    """Return a new tensor's array where it belongs: in the traced program, or on the device of the running op.

    NOTE home. What an op makes besides the results of rules (noise, masks, indices, constants) are NumPy arrays. While
    a public function runs on tensors of a device, or a gradient of theirs is computed and recorded, that device is the
    thread's `home`, and a tensor made from such an array is put there.
    """
    if tracer.current is not None:
        return tracer.current.new_array(array)
    home = local.modes.home
    return array if home is None or type(array) is not np.ndarray else placed(array, home)


class Home:
    """Make a device the home of new arrays inside the block; None: the CPU."""

    __slots__ = ("device", "before")

    def __init__(self, device: Device | None) -> None:
        self.device = device

    def __enter__(self) -> None:
        modes = local.modes
        self.before, modes.home = modes.home, self.device

    def __exit__(self, *exc: Any) -> None:
        local.modes.home = self.before


def accelerator_among(values: Iterable[Any]) -> Device | None:
    """Return the device of the first tensor that is not on the CPU."""
    for value in values:
        array = getattr(value, "_array", None)
        if type(array) is DeviceArray and (device := array.device) is not cpu:
            return device
        if type(array) is HostedArray:
            return array.nominal
    return None


def accelerator_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Device | None:
    """Return the device of the first tensor among nested arguments that is not on the CPU."""
    for value in args:
        if isinstance(value, (tuple, list, dict)):
            break  # what it holds comes first
        array = getattr(value, "_array", None)
        if array is not None and (device := accelerator_among((value,))) is not None:
            return device
    else:
        if not kwargs:
            return None
    return accelerator_among(tree.leaves((args, kwargs)))


def jax_device(device: Device) -> Any:
    """Return JAX's name for a device: `cuda` for its GPUs, `xla` for its default."""
    jax = jax_namespace().jax
    found = jax.devices() if device.type == "xla" else jax.devices(device.type)
    return found[device.index or 0]


@cache
def gpus() -> int:
    """Return how many GPUs JAX can use. JAX is only queried if a plugin for them is installed."""
    if not any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13)):
        return 0
    try:
        return len(jax_namespace().jax.devices("cuda"))
    except RuntimeError:
        return 0
