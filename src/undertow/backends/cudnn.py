"""Settings of cuDNN, which undertow does not use."""

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
    """Return its version: None."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN supports a tensor."""
    return False


def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False,
    allow_tf32: bool = True, fp32_precision: str = "none",
) -> AbstractContextManager[None]:  # fmt: skip
    """Apply these settings inside the block."""
    return set_inside(
        __name__, enabled=enabled, benchmark=benchmark, deterministic=deterministic, allow_tf32=allow_tf32
    )
