"""Keeping memory that was freed, for the next array.

Arrays of a layer's size are above what the C library keeps: it asks the system for each and gives it back, and the pages
come zeroed, one fault at a time. That costs more than most arithmetic on them (two live temporaries of half a megabyte:
340 µs instead of 26 µs). Asking it to keep more is one call.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's names for the limits, from malloc.h
_KEPT_BYTES = 1 << 29  # freed memory that stays with the process
_OWN_BYTES = 1 << 27  # an array larger than this is asked for, and given back, on its own


_OF_A_THREAD = 1 << 26  # a thread other than the first gets its memory in regions of this size
KEPT_AT_ONCE = _OF_A_THREAD - (1 << 22)  # what fits into one: an array that is larger is given back when it is freed


def keep_freed_memory() -> bool:
    """Whether the C library agreed; without glibc nothing changes."""
    return _limit(_MMAP_THRESHOLD, _OWN_BYTES) and _limit(_TRIM_THRESHOLD, _KEPT_BYTES)


def keep_freed_memory_of_threads() -> bool:
    """The same for threads other than the first: a region of theirs in which nothing is used any more stays theirs."""
    return _limit(_TOP_PAD, _OF_A_THREAD)


def _limit(name: int, size: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt(name, size))
    except (AttributeError, OSError, TypeError):
        return False
