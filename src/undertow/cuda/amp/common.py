"""Whether mixed precision on CUDA can be had at all."""

from __future__ import annotations

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """There is no CUDA, so it can't."""
    return True
