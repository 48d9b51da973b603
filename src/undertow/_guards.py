"""`torch._guards`: how packages ask whether their tensors are made up for a compiler. None is."""

from __future__ import annotations

from typing import Any

__all__ = ["detect_fake_mode"]


def detect_fake_mode(inputs: Any = None) -> None:
    """Return what made up the tensors that a program sees: nothing."""
