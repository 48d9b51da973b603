"""Upsample, and its two old special cases."""

from __future__ import annotations

from typing import Any

from undertow._src.types.aliases import _size
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn.modules.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


def _floats(factor: float | tuple[float, ...] | None) -> float | tuple[float, ...] | None:
    """Return a factor, or one per dimension, as floats; None and zero stay as they are."""
    return tuple(map(float, factor)) if isinstance(factor, tuple) else float(factor) if factor else None


class Upsample(Module):
    """Resizes the spatial dimensions to a size or by a factor."""

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]
    name: str
    scale_factor: float | tuple[float, ...] | None

    def __init__(
        self, size: int | _size | None = None, scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.name, self.mode = type(self).__name__, mode
        self.size, self.scale_factor = size, _floats(scale_factor)
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"recompute_scale_factor": True, **state})

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample by the nearest pixel."""

    def __init__(self, size: int | _size | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample bilinearly, with the corners aligned."""

    def __init__(self, size: int | _size | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
