"""Process-wide settings that PyTorch programs make and read back."""

from __future__ import annotations

import importlib
import os
from typing import Any

from undertow._src.arrays.precision import Precision
from undertow._src.base.modes import Deterministic
from undertow._src.base.sites import Once
from undertow._src.types.devices import device as Device


class _Settings:
    __slots__ = ("threads", "interop_threads")

    def __init__(self) -> None:
        self.threads = int(os.environ.get("OMP_NUM_THREADS", "0") or 0) or os.cpu_count() or 1
        self.interop_threads = os.cpu_count() or 1


_settings = _Settings()


def get_num_threads() -> int:
    """Return the number of threads that was set; NumPy's library decides how many it uses."""
    return _settings.threads


def set_num_threads(num: int) -> None:
    """Store the number of threads."""
    if not isinstance(num, int):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _settings.threads = num


def get_num_interop_threads() -> int:
    return _settings.interop_threads


def set_num_interop_threads(num: int) -> None:
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _settings.interop_threads = num


def get_float32_matmul_precision() -> str:
    """Return the setting; the CPU multiplies float32 in float32 whatever it is."""
    return Precision.float32_products


def set_float32_matmul_precision(precision: str) -> None:
    """Store "highest", "high" or "medium": GPUs may round float32 to TF32 unless it is the first."""
    if precision in ("highest", "high", "medium"):
        Precision.float32_products = precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Refuse, or warn of, functions without a deterministic algorithm in PyTorch, and fill uninitialised memory."""
    Deterministic.wanted, Deterministic.warn_only = mode, mode and warn_only


def are_deterministic_algorithms_enabled() -> bool:
    return Deterministic.wanted


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return Deterministic.warn_only


def set_warn_always(b: bool, /) -> None:
    """Set whether warnings that are given once per process are given every time."""
    Once.always = b


def is_warn_always_enabled() -> bool:
    return Once.always


def get_deterministic_debug_mode() -> int:
    """Return 0, or 1 and 2 where PyTorch would warn of, or refuse, nondeterministic algorithms."""
    if not Deterministic.wanted:
        return 0
    return 1 if Deterministic.warn_only else 2


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Call `use_deterministic_algorithms` by a number or a name."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        words = ("default", "warn", "error")
        if debug_mode not in words:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got " + debug_mode
            )
        debug_mode = words.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def set_flush_denormal(mode: bool, /) -> bool:
    """Return whether tiny numbers will be rounded to zero: never, NumPy keeps them."""
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return False


# --- what PyTorch may have been built with

has_lapack = has_spectral = True  # NumPy has both
has_mkl = has_openmp = False


def is_vulkan_available() -> bool:
    """Whether there is a Vulkan device."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Return which C++ ABI extensions must be built for; undertow has no C++."""
    return True


def get_device_module(device: Any = None) -> Any:
    """Return the module of a device type: `undertow.cpu` unless a different one is named."""
    if device is not None and not isinstance(device, (str, Device)):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = "cpu" if device is None else Device(device).type
    return importlib.import_module(f"undertow.{kind}")
