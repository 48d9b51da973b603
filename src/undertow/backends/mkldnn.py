"""Settings of oneDNN, which undertow does not use."""

from __future__ import annotations

from contextlib import AbstractContextManager

from undertow.backends._switches import set_inside

enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """Whether oneDNN can be used."""
    return False


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> AbstractContextManager[None]:
    """Apply these settings inside the block."""
    return set_inside(__name__, enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32)
