"""`torch.cpu`: the CPU seen as a device, for code that treats all devices alike."""

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
    """Wait for the CPU: everything is computed when a call returns, so nothing happens."""


class Stream:
    """A queue of work; the CPU has one, and it is always empty."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing is under way, so nothing is waited for."""

    def record_event(self) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass


class Event:
    """A point in a stream, already reached."""

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
    """Return the CPU's one stream."""
    return _stream


def stream(stream: Stream) -> AbstractContextManager[Any]:
    """Return a block whose work goes to a stream."""
    return nullcontext(stream)


StreamContext = stream


def device_count() -> int:
    """How many CPU devices there are: the whole CPU is one."""
    return 1


def set_device(device: Any) -> None:
    """Choose among the CPUs, of which there is one."""


def current_device() -> str:
    return "cpu"
