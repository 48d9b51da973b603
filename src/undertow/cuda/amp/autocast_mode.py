"""The deprecated names of autocast and its decorators for CUDA."""

from __future__ import annotations

import functools
from typing import Any

from undertow import amp
from undertow._src.base.sites import warn
from undertow._src.types import dtypes

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


def _deprecated(name: str, instead: str) -> None:
    warn(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{instead}` instead.", FutureWarning)


class autocast(amp.autocast):
    """`torch.amp.autocast("cuda", ...)`."""

    __module__ = "torch.cuda.amp.autocast_mode"

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True) -> None:
        _deprecated("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`torch.amp.custom_fwd(..., device_type="cuda")`."""
    _deprecated("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return functools.partial(amp.custom_fwd, device_type="cuda")(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`torch.amp.custom_bwd(..., device_type="cuda")`."""
    _deprecated("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return functools.partial(amp.custom_bwd, device_type="cuda")(bwd)
