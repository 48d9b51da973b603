"""`torch.utils._mode_utils`: switching off what takes over operators below autograd."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from undertow._src.base.modes import local


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Return a block in which operators are simply run: neither modes nor classes are asked."""
    modes = local.modes
    modes.dispatch_off += 1
    try:
        yield
    finally:
        modes.dispatch_off -= 1


def all_same_mode(modes: Any) -> bool:
    """Whether modes are one and the same."""
    return all(mode is modes[0] for mode in modes)
