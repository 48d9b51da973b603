"""`torch.cpu`: the CPU as a device, for device-agnostic code."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from undertow._src.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"amp": "undertow.cpu.amp"})

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count", "is_available",
    "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def is_initialized() -> bool:
    return True


def synchronize(device: Any = None) -> None:
    """Do nothing: all work is done when a call returns."""


class Stream:
    """A stream of work; the CPU has one, and it is always empty."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: no work is pending."""

    def record_event(self) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass


class Event:
    """An event in a stream, always complete."""

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass


_stream = Stream()


def current_stream(device: Any = None) -> Stream:
    """Return the CPU's only stream."""
    return _stream


def stream(stream: Stream) -> AbstractContextManager[Any]:
    """Do nothing inside the block: all work goes to the only stream."""
    return nullcontext(stream)


StreamContext = stream


def device_count() -> int:
    """Return the number of CPU devices: one."""
    return 1


def set_device(device: Any) -> None:
    """Do nothing: there is one CPU device."""


def current_device() -> str:
    return "cpu"
