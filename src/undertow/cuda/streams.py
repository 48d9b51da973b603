"""Streams and events of CUDA, which are not available."""

from __future__ import annotations

from typing import Any


class Stream:
    """A stream of work on a GPU."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("torch.cuda.Stream requires CUDA support")


class ExternalStream(Stream):
    """A stream that another library created."""


class Event:
    """An event in a stream of a GPU."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Tried to instantiate dummy base class Event")
