"""`torch._C._fft`: the functions of `torch.fft` under the names `fft_…`."""

from __future__ import annotations

from typing import Any

from undertow import fft


def __getattr__(name: str) -> Any:
    found = getattr(fft, name.removeprefix("fft_"), None) if name.startswith("fft_") else None
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
