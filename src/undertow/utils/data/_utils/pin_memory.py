"""Memory that an accelerator can read at once, of which there is none."""

from __future__ import annotations

from typing import Any, NoReturn


def pin_memory(data: Any, device: Any = None) -> NoReturn:
    """Refuses: there is no accelerator to read it."""
    raise RuntimeError("Cannot access accelerator device when none is available.")
