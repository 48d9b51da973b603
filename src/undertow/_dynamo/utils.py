"""The few names of `torch._dynamo.utils` that packages use around compiled code: there is nothing to limit or count."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator

__all__ = ["counters", "disable_cache_limit"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Within, a compiler makes as many programs as it likes."""
    yield
