"""Discrete Fourier transforms on NumPy, in the three forms that the rules are made of.

`normalization`: 0 leaves the sums unchanged, 1 divides them by the root of the number of terms, 2 by the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_FORWARD = ("backward", "ortho", "forward")  # NumPy's name for each normalization
_INVERSE = ("forward", "ortho", "backward")


def fft_c2c(x: Array, dims: tuple[int, ...], normalization: int, forward: bool) -> Array:
    """Transform complex numbers to complex numbers."""
    if not dims:
        return x.copy()
    transform, norm = (np.fft.fftn, _FORWARD) if forward else (np.fft.ifftn, _INVERSE)
    result = transform(x, axes=dims, norm=norm[normalization])  # type: ignore[arg-type]
    return _lying(result, _order(_outer_first(x.strides), dims))


def fft_r2c(x: Array, dims: tuple[int, ...], normalization: int, onesided: bool) -> Array:
    """Transform real numbers to complex ones; onesided: without the mirrored half of the last dim."""
    transform = np.fft.rfftn if onesided else np.fft.fftn
    result = transform(x, axes=dims, norm=_FORWARD[normalization])  # type: ignore[arg-type]
    return _lying(result, _order(_outer_first(x.strides), dims[:-1], dims[-1:]))


def fft_c2r(x: Array, dims: tuple[int, ...], normalization: int, last: int) -> Array:
    """Transform one half of mirrored complex numbers to real ones, `last` of them along the last dim."""
    sizes = [*[x.shape[dim] for dim in dims[:-1]], last]
    result = np.fft.irfftn(x, sizes, axes=dims, norm=_INVERSE[normalization])  # type: ignore[arg-type]
    between = _order(_outer_first(x.strides), dims[:-1])
    return _lying(result, [*[dim for dim in between if dim != dims[-1]], dims[-1]])


# --- the layout of a result: as PyTorch's, the transformed dims innermost


def _outer_first(strides: Sequence[int]) -> list[int]:
    return sorted(range(len(strides)), key=lambda dim: -strides[dim])


def _order(order: list[int], dims: Sequence[int], last: Sequence[int] = ()) -> list[int]:
    """Return the dims of a result from the outermost to the innermost, where they are not in the input's order."""
    transformed = [*dims, *last]
    return [*[d for d in order if d not in transformed], *[d for d in order if d in dims], *last]


def _lying(result: Array, order: list[int]) -> Array:
    """Return the same values with their dims in memory in an order."""
    turned = result.transpose(order)
    return result if turned.flags.c_contiguous else np.ascontiguousarray(turned).transpose(np.argsort(order))
