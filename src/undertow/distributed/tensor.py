"""`torch.distributed.tensor`, for packages that ask whether a tensor lies on several devices. None does."""

from __future__ import annotations

from typing import Any

__all__ = ["DTensor"]


class DTensor:
    """A tensor that lies on several devices. None can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "undertow has no torch.distributed.tensor.DTensor: torch.distributed.is_available() is False"
        )
