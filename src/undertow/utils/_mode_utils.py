"""`torch.utils._mode_utils`: switching off what takes over operators below autograd, where nothing does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def no_dispatch() -> Iterator[None]:
    """A block in which nothing takes over: as everywhere."""
    yield


def all_same_mode(modes: Any) -> bool:
    """Whether modes are one and the same."""
    return all(mode is modes[0] for mode in modes)
