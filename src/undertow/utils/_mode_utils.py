"""`torch.utils._mode_utils`: disabling dispatch modes and classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from undertow._src.base.modes import local


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Disable `__torch_dispatch__` of modes and classes inside the block."""
    modes = local.modes
    modes.dispatch_off += 1
    try:
        yield
    finally:
        modes.dispatch_off -= 1


def all_same_mode(modes: Any) -> bool:
    """Whether all modes are the same object."""
    return all(mode is modes[0] for mode in modes)
