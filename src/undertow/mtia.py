"""`torch.mtia`, answered truthfully: there is no such device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = [
    "current_device", "device_count", "empty_cache", "is_available", "is_initialized", "manual_seed", "manual_seed_all",
    "memory_stats", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether such a device can be used."""
    return False


is_initialized = is_available


def device_count() -> int:
    """How many there are."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the generator of the device: there is none, so nothing happens."""


manual_seed_all = manual_seed


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Numbers of the allocator: none."""
    return {}


def _refusing(needed: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        """Refuses in the words of a PyTorch without such a device."""
        raise RuntimeError(f"Cannot execute {needed}() without MTIA backend.")

    return refuse


empty_cache = _refusing("emptyCache")
current_device = synchronize = _refusing("getCurrentDevice")
