"""Discrete Fourier transforms of tensors, for gradients that are themselves recorded."""

from __future__ import annotations

from typing import Any

from undertow._src.engine.apply import apply
from undertow._src.rules import fft


def fft_c2c(x: Any, dims: tuple[int, ...], normalization: int, forward: bool) -> Any:
    return apply(fft.fft_c2c, x, dim=dims, normalization=normalization, forward=forward)


def fft_r2c(x: Any, dims: tuple[int, ...], normalization: int, onesided: bool) -> Any:
    return apply(fft.fft_r2c, x, dim=dims, normalization=normalization, onesided=onesided)


def fft_c2r(x: Any, dims: tuple[int, ...], normalization: int, last: int) -> Any:
    return apply(fft.fft_c2r, x, dim=dims, normalization=normalization, last=last)
