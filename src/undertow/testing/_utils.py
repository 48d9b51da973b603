"""`torch.testing._utils`: calls and blocks with reproducible random numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from undertow.random import get_rng_state, manual_seed, set_rng_state


@contextlib.contextmanager
def freeze_rng_state(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Restore the random state after the block."""
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def wrapper_set_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with a fixed random seed."""
    with freeze_rng_state():
        manual_seed(42)
        return op(*args, **kwargs)
