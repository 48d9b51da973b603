"""Accelerators, answered truthfully: there is none."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Whether there is an accelerator."""
    return False


def device_count() -> int:
    """How many there are."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The accelerator in use: None."""
    return None
