"""Queues of work for a GPU, of which there is none."""

from __future__ import annotations

from typing import Any


class Stream:
    """A queue of work on a GPU."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("torch.cuda.Stream requires CUDA support")


class ExternalStream(Stream):
    """A queue of work that another library made."""


class Event:
    """A point in a queue of work on a GPU."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Tried to instantiate dummy base class Event")
