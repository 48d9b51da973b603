"""The device type that `checkpoint` assumes if no tensor determines it."""

from __future__ import annotations

__all__ = ["DefaultDeviceType"]


class DefaultDeviceType:
    """A global setting. Random numbers are always drawn on the CPU here."""

    _default_device_type = "cpu"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the device type."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the device type; "cpu" unless it was set."""
        return DefaultDeviceType._default_device_type
