"""`cache_method`: cache the results of a method in its instance."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def cache_method(f: Callable[..., Any]) -> Callable[..., Any]:
    """Call a method once for each set of positional arguments; an instance's results are freed with it."""
    kept = f"_cache_method_{f.__name__}"

    @functools.wraps(f)
    def cached(self: Any, *args: Any) -> Any:
        results = self.__dict__.setdefault(kept, {})
        if args not in results:
            results[args] = f(self, *args)
        return results[args]

    return cached
