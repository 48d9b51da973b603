"""`torch.mps`, answered truthfully: there is no such device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = [
    "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "get_rng_state", "is_available",
    "manual_seed", "recommended_max_memory", "seed", "set_per_process_memory_fraction", "set_rng_state", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether such a device can be used."""
    return False


def device_count() -> int:
    """How many there are."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the generator of the device: there is none, so nothing happens."""


def _refusing(needed: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        """Refuses in the words of a PyTorch without such a device."""
        raise RuntimeError(f"Cannot execute {needed}() without MPS backend.")

    return refuse


empty_cache, synchronize = _refusing("emptyCache"), _refusing("deviceSynchronize")
current_allocated_memory = _refusing("getCurrentAllocatedMemory")
driver_allocated_memory = _refusing("getDriverAllocatedMemory")
recommended_max_memory = _refusing("getRecommendedMaxMemory")
set_per_process_memory_fraction = _refusing("setMemoryFraction")
seed = get_rng_state = set_rng_state = _refusing("getDefaultGenerator")
