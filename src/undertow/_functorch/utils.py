"""`torch._functorch.utils`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from undertow.utils._exposed_in import exposed_in as exposed_in

__all__ = ["argnums_t", "enable_single_level_autograd_function", "exposed_in", "unwrap_dead_wrappers"]

argnums_t = int | tuple[int, ...]


@contextmanager
def enable_single_level_autograd_function() -> Iterator[None]:
    """Return a block in which custom functions belong to one transform; here they always do."""
    yield


def unwrap_dead_wrappers(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments as they are: nothing is left of a transform that has ended."""
    return tuple(args)
