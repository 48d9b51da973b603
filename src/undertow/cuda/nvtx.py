"""Marks for NVIDIA's profilers, which need CUDA."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(*args: Any, **kwargs: Any) -> NoReturn:
    """Begins a named stretch."""
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


range_pop = range_start = range_end = mark = range_push


class range:
    """A named stretch, as a block."""

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        self.msg = msg

    def __enter__(self) -> None:
        range_push(self.msg)

    def __exit__(self, *exc: Any) -> None:
        pass
