"""Discrete Fourier transforms on JAX. `normalization`: 0 divides the sums by nothing, 1 by √n, 2 by n."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

Array = Any

_FORWARD = ("backward", "ortho", "forward")  # NumPy's name for each normalization
_INVERSE = ("forward", "ortho", "backward")
_TOGETHER = 3  # axes that XLA transforms at once


def _groups(dims: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Group axes as XLA takes them, the last ones first: a transform of real numbers begins there."""
    groups = []
    while dims:
        dims, group = dims[:-_TOGETHER], dims[-_TOGETHER:]
        groups.append(group)
    return groups


def fft_c2c(x: Array, dims: tuple[int, ...], normalization: int, forward: bool) -> Array:
    """Transform complex numbers to complex numbers."""
    for group in _groups(dims):
        if forward:
            x = jnp.fft.fftn(x, axes=group, norm=_FORWARD[normalization])
        else:
            x = jnp.fft.ifftn(x, axes=group, norm=_INVERSE[normalization])
    return x


def fft_r2c(x: Array, dims: tuple[int, ...], normalization: int, onesided: bool) -> Array:
    """Transform real numbers to complex ones; onesided: without the mirrored half of the last dim."""
    if not onesided:
        return fft_c2c(x.astype(np.result_type(x.dtype, np.complex64)), dims, normalization, True)
    halved = jnp.fft.rfft(x, axis=dims[-1], norm=_FORWARD[normalization])
    return fft_c2c(halved, dims[:-1], normalization, True)


def fft_c2r(x: Array, dims: tuple[int, ...], normalization: int, last: int) -> Array:
    """Transform one half of mirrored complex numbers to real ones, `last` of them along the last dim."""
    whole = fft_c2c(x, dims[:-1], normalization, False)
    return jnp.fft.irfft(whole, last, axis=dims[-1], norm=_INVERSE[normalization])
