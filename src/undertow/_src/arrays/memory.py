"""Keeping memory that was freed, for the next array.

Arrays of a layer's size are above what the C library keeps: it asks the system for each and gives it back, and the pages
come zeroed, one fault at a time. That costs more than most arithmetic on them (two live temporaries of half a megabyte:
340 µs instead of 26 µs). Asking it to keep more is one call.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names for the two limits, from malloc.h
_KEPT_BYTES = 1 << 29  # freed memory that stays with the process
_OWN_BYTES = 1 << 27  # an array larger than this is asked for, and given back, on its own


def keep_freed_memory() -> bool:
    """Whether the C library agreed; without glibc nothing changes."""
    try:
        limit = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(limit(_MMAP_THRESHOLD, _OWN_BYTES) and limit(_TRIM_THRESHOLD, _KEPT_BYTES))
