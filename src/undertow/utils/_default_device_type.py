"""The kind of device that `checkpoint` assumes where no tensor says which."""

from __future__ import annotations

__all__ = ["DefaultDeviceType"]


class DefaultDeviceType:
    """A setting of the process. Random numbers are drawn on the CPU here, whichever it says."""

    _default_device_type = "cpu"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return what it is; "cpu" unless it was set."""
        return DefaultDeviceType._default_device_type
