"""The deprecated name of GradScaler for the CPU."""

from __future__ import annotations

from undertow.amp.grad_scaler import DeprecatedGradScaler

__all__ = ["GradScaler"]


class GradScaler(DeprecatedGradScaler):
    """`torch.amp.GradScaler("cpu", ...)`."""

    __module__ = "torch.cpu.amp.grad_scaler"
    _named_device = "cpu"
