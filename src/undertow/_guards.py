"""`torch._guards`: detection of fake tensors, which undertow does not have."""

from __future__ import annotations

from typing import Any

__all__ = ["detect_fake_mode"]


def detect_fake_mode(inputs: Any = None) -> None:
    """Return the mode of fake tensors: None."""
