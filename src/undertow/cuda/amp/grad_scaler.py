"""The deprecated name of GradScaler for CUDA."""

from __future__ import annotations

from undertow.amp.grad_scaler import DeprecatedGradScaler

__all__ = ["GradScaler"]


class GradScaler(DeprecatedGradScaler):
    """`torch.amp.GradScaler("cuda", ...)`."""

    __module__ = "torch.cuda.amp.grad_scaler"
    _named_device = "cuda"
