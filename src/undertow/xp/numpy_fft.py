"""Discrete Fourier transforms on NumPy, in the three forms that the rules are made of.

`normalization`: 0 leaves the sums as they are, 1 divides them by the root of how many they sum, 2 by how many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_FORWARD = ("backward", "ortho", "forward")  # NumPy's word for each normalization
_INVERSE = ("forward", "ortho", "backward")


def fft_c2c(x: Array, dims: tuple[int, ...], normalization: int, forward: bool) -> Array:
    """Complex numbers to complex numbers."""
    if not dims:
        return x.copy()
    if forward:
        return np.fft.fftn(x, axes=dims, norm=_FORWARD[normalization])  # type: ignore[arg-type]
    return np.fft.ifftn(x, axes=dims, norm=_INVERSE[normalization])  # type: ignore[arg-type]


def fft_r2c(x: Array, dims: tuple[int, ...], normalization: int, onesided: bool) -> Array:
    """Real numbers to complex ones; onesided: without the half of the last dim that mirrors the other."""
    transform = np.fft.rfftn if onesided else np.fft.fftn
    return transform(x, axes=dims, norm=_FORWARD[normalization])  # type: ignore[arg-type]


def fft_c2r(x: Array, dims: tuple[int, ...], normalization: int, last: int) -> Array:
    """One half of mirrored complex numbers to real ones, `last` of them along the last dim."""
    sizes = [*[x.shape[dim] for dim in dims[:-1]], last]
    return np.fft.irfftn(x, sizes, axes=dims, norm=_INVERSE[normalization])  # type: ignore[arg-type]
