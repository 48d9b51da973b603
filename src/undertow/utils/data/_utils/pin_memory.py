"""Pinned memory, which is not available."""

from __future__ import annotations

from typing import Any, NoReturn


def pin_memory(data: Any, device: Any = None) -> NoReturn:
    """Raise: there is no accelerator."""
    raise RuntimeError("Cannot access accelerator device when none is available.")
