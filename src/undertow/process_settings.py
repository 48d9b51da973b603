"""Settings of the process that PyTorch programs make and read back."""

from __future__ import annotations

import os


class _Settings:
    __slots__ = ("threads", "interop_threads", "matmul_precision", "deterministic", "warn_only", "warn_always")

    def __init__(self) -> None:
        self.threads = int(os.environ.get("OMP_NUM_THREADS", "0") or 0) or os.cpu_count() or 1
        self.interop_threads = os.cpu_count() or 1
        self.matmul_precision = "highest"
        self.deterministic = self.warn_only = self.warn_always = False


_settings = _Settings()


def get_num_threads() -> int:
    """How many threads were asked for; NumPy's library decides how many it uses."""
    return _settings.threads


def set_num_threads(num: int) -> None:
    """Notes how many threads are wanted."""
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
    """Always computed in float32 here, whatever was asked for."""
    return _settings.matmul_precision


def set_float32_matmul_precision(precision: str) -> None:
    """Notes "highest", "high" or "medium"."""
    if precision in ("highest", "high", "medium"):
        _settings.matmul_precision = precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """undertow's algorithms are deterministic; the wish is noted."""
    _settings.deterministic, _settings.warn_only = mode, mode and warn_only


def are_deterministic_algorithms_enabled() -> bool:
    return _settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return _settings.warn_only


def set_warn_always(b: bool, /) -> None:
    """Notes whether warnings that are given once should be given always; Python's own filters decide that here."""
    _settings.warn_always = b


def is_warn_always_enabled() -> bool:
    return _settings.warn_always
