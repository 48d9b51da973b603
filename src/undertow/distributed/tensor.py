"""`torch.distributed.tensor`, for packages that test for distributed tensors. There are none."""

from __future__ import annotations

from typing import Any

__all__ = ["DTensor"]


class DTensor:
    """A tensor distributed over several devices. None can be created."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "undertow has no torch.distributed.tensor.DTensor: torch.distributed.is_available() is False"
        )
