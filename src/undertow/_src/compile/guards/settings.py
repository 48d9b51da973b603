"""Settings of the process and the thread that a step's operations obey, or that its code reads."""

from __future__ import annotations

import decimal
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from undertow._src.arrays.precision import Precision
from undertow._src.base.modes import Deterministic, ThreadModes
from undertow._src.compat.process_settings import get_num_interop_threads, get_num_threads, is_warn_always_enabled
from undertow._src.types.devices import get_default_device
from undertow._src.types.dtypes import SCALAR_DTYPE, float16
from undertow.amp.casting import DEFAULTS
from undertow.amp.casting import settings as casting
from undertow.backends.cuda import attention_kernels
from undertow.random import initial_seed

_OF_DECIMALS = attrgetter("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def decimal_context() -> str:
    """Return the settings of decimal arithmetic."""
    context = decimal.getcontext()
    return repr((*_OF_DECIMALS(context), *context.traps.values()))


# Functions and attributes that read a setting, by name. If code uses one of these names, the setting is compared
# before each call; `settings_now` has those that operations use.
LOOKS: dict[str, Callable[[], Any]] = {
    "Decimal": decimal_context,
    "active_count": threading.active_count,
    "current_thread": threading.current_thread,
    "fill_uninitialized_memory": lambda: Deterministic.fills_memory,
    "get_ident": threading.get_ident,
    "get_num_interop_threads": get_num_interop_threads,
    "get_num_threads": get_num_threads,
    "get_printoptions": lambda: repr(np.get_printoptions()),
    "geterr": lambda: repr(np.geterr()),
    "getcwd": os.getcwd,
    "getpid": os.getpid,
    "getprofile": sys.getprofile,
    "getrecursionlimit": sys.getrecursionlimit,
    "getswitchinterval": sys.getswitchinterval,
    "gettrace": sys.gettrace,
    "initial_seed": initial_seed,
    "is_autocast_cache_enabled": lambda: casting.cache_enabled,
    "is_warn_always_enabled": is_warn_always_enabled,
    **{f"{kernel}_sdp_enabled": partial(attention_kernels.get, kernel) for kernel in attention_kernels},
}
ANSWERED = LOOKS.keys() | {
    "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode", "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
}  # fmt: skip
GUARDED = {id(function) for function in (os.getenv, *LOOKS.values())}  # functions whose results are guarded


def unusual_dtypes() -> list[tuple[str, Any]]:
    """Return the device types whose autocast dtype is not the default."""
    return [(kind, dtype) for kind, dtype in casting.dtype.items() if dtype is not DEFAULTS.get(kind, float16)]


def settings_now(modes: ThreadModes) -> list[Any]:
    """Return the settings around a call that change what its operations do."""
    autocast = modes.autocast and (*modes.autocast.lower.items(),)
    found = [
        modes.grad_enabled, modes.inference, autocast, SCALAR_DTYPE[float], Precision.float32_products,
        get_default_device(),
    ]  # fmt: skip
    if not all(attention_kernels.values()):
        found += ["attention", *attention_kernels.values()]
    if casting.dtype:
        found += unusual_dtypes()
    if Deterministic.wanted:
        found += ["deterministic", Deterministic.warn_only, Deterministic.fills_memory]
    return found
