"""The few names of `torch._dynamo.utils` that packages use."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator

__all__ = ["counters", "disable_cache_limit"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Lift the limit of recompilations inside the block; there is none here."""
    yield
