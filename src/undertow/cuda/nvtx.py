"""Markers for NVIDIA's profilers, which need CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(*args: Any, **kwargs: Any) -> NoReturn:
    """Start a named range."""
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


range_pop = range_start = range_end = mark = range_push


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Mark a named range around a block or a function."""
    range_push(msg.format(*args, **kwargs))
    yield
