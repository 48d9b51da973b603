"""GPU memory statistics: none is in use."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from undertow._src.base.sites import warn
from undertow.cuda._absent import refuse


def empty_cache() -> None:
    """Release cached GPU memory: there is none."""


def memory_allocated(device: Any = None) -> int:
    """Return the number of bytes that tensors use."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_cached(device: Any = None) -> int:
    """Call memory_reserved (a deprecated name)."""
    _renamed("memory_cached", "memory_reserved")
    return 0


def max_memory_cached(device: Any = None) -> int:
    """Call max_memory_reserved (a deprecated name)."""
    _renamed("max_memory_cached", "max_memory_reserved")
    return 0


def _renamed(old: str, new: str) -> None:
    text = f"`torch.cuda.{old}` has been renamed to `torch.cuda.{new}`"
    warn(text, FutureWarning)


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return the allocator's statistics: none."""
    return OrderedDict()


host_memory_stats = memory_stats_as_nested_dict = memory_stats


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the allocator's statistics as a table."""
    return "no GPU, no GPU memory"


def reset_peak_memory_stats(device: Any = None) -> None:
    """Reset the peak of GPU memory: there is none."""


reset_accumulated_memory_stats = reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
mem_get_info = set_per_process_memory_fraction = refuse
