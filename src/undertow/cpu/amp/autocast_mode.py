"""The deprecated name of autocast for the CPU."""

from __future__ import annotations

from typing import Any

from undertow import amp
from undertow._src.base.sites import warn
from undertow._src.types import dtypes

__all__ = ["autocast"]


class autocast(amp.autocast):
    """`torch.amp.autocast("cpu", ...)`."""

    __module__ = "torch.cpu.amp.autocast_mode"

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.bfloat16, cache_enabled: bool = True) -> None:
        warn(
            "`torch.cpu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
        )
        super().__init__("cpu", dtype, enabled, cache_enabled)
