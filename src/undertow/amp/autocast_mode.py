"""`autocast`: a block in which functions run in lower precision, and its decorators for custom Functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from undertow._src.arrays.device.placement import gpus
from undertow._src.base.sites import warn
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.methods.convert import converted
from undertow._src.types import dtypes
from undertow.amp.casting import (
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_CPU_DTYPES = (dtypes.bfloat16, dtypes.float16)


def _check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


class autocast:
    """Compute matrix products and convolutions inside the block in `dtype` (bfloat16 on the CPU), losses in float32.

    It is a context manager and a decorator. Blocks nest, and `enabled=False` makes a block of full precision.
    `cache_enabled`: keep the cast of a weight for its next use in the block. Run the backward pass outside.

    >>> with torch.autocast("cpu"):
    ...     print((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
    torch.bfloat16
    """

    __module__ = "torch.amp.autocast_mode"

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        _check_device_type(device_type)
        self.device = device_type
        usual = get_autocast_dtype(device_type)  # raises for devices without autocast
        self.fast_dtype = usual if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if device_type == "cpu" and enabled and self.fast_dtype not in _CPU_DTYPES:
            warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only supports "
                "dtypes of torch.bfloat16, torch.float16 currently."
            )
            enabled = False
        if device_type != "cpu" and enabled and not (device_type == "xla" or (device_type == "cuda" and gpus())):
            name = device_type.upper()
            warn(f"{name} is not available or torch_xla is imported. Disabling autocast.")
            enabled = False
        self._enabled = enabled
        self._before: list[tuple[bool, Any, bool]] = []

    def __enter__(self) -> autocast:
        kind = self.device
        self._before.append((is_autocast_enabled(kind), get_autocast_dtype(kind), is_autocast_cache_enabled()))
        set_autocast_enabled(kind, self._enabled)
        set_autocast_dtype(kind, self.fast_dtype)
        autocast_increment_nesting()
        set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, *exc: Any) -> None:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        enabled, dtype, cached = self._before.pop()
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, dtype)
        set_autocast_cache_enabled(cached)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `func` to run inside the block."""

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return inside


# --- custom Functions


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate the `forward` of a custom Function. With `cast_inputs`, cast the inputs and run it without autocast.

    Otherwise forward runs in the current autocast mode, which `custom_bwd` restores in the backward pass.
    """
    _check_device_type(device_type)

    def run(function: Any, args: Any, kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return function(*args, **kwargs)
        with autocast(device_type, enabled=False):
            given = {name: _cast(value, cast_inputs) for name, value in kwargs.items()}
            return function(*[_cast(value, cast_inputs) for value in args], **given)

    return _run_by(run, fwd)


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate the `backward` of a custom Function to run in the autocast mode of its forward."""
    _check_device_type(device_type)

    def run(function: Any, args: Any, kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type, context._dtype, context._fwd_used_autocast):
            return function(*args, **kwargs)

    return _run_by(run, bwd)


def _run_by(run: Callable[[Any, Any, Any], Any], method: Any) -> Any:
    """Return a method that calls `run(method, args, kwargs)`, or a decorator that makes such methods."""
    if method is None:
        return functools.partial(_run_by, run)
    return functools.wraps(method)(lambda *args, **kwargs: run(method, args, kwargs))


def _cast(value: Any, dtype: Any) -> Any:
    """Cast floating-point tensors other than double ones to a dtype, within nested containers."""
    if isinstance(value, TensorCore):
        kind = value.dtype
        return converted(value, dtype) if kind.is_floating_point and kind is not dtypes.float64 else value
    if isinstance(value, (str, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return type(value)({_cast(key, dtype): _cast(part, dtype) for key, part in value.items()})  # type: ignore[call-arg]
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(part, dtype) for part in value])
    return value
