"""`torch.mps`, answered truthfully: there is no such device."""

from __future__ import annotations

__all__ = ["device_count", "is_available", "manual_seed"]


def is_available() -> bool:
    """Whether such a device can be used."""
    return False


def device_count() -> int:
    """How many there are."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the generator of the device: there is none, so nothing happens."""

