"""cuDNN, which is not here."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from undertow.backends._switches import set_inside

enabled = True
benchmark = False
benchmark_limit = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """Whether cuDNN can be used."""
    return False


def version() -> int | None:
    """Its version: none."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would take a tensor."""
    return False


def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False,
    allow_tf32: bool = True, fp32_precision: str = "none",
) -> AbstractContextManager[None]:  # fmt: skip
    """Return a block with these switches."""
    return set_inside(
        __name__, enabled=enabled, benchmark=benchmark, deterministic=deterministic, allow_tf32=allow_tf32
    )
