"""Rules of discrete Fourier transforms. They are linear, and the adjoint of each is again one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

fft_c2c = op("fft_c2c", lambda xp, self, *, dim, normalization, forward: xp.fft_c2c(self, dim, normalization, forward),
             node="FftC2CBackward0", holomorphic=False,
             self=lambda xp, g, dim, normalization, forward: xp.fft_c2c(g, dim, normalization, not forward))  # fmt: skip


def mirrored_gradient(xp: Namespace, g: Array, size: int, dim: tuple[int, ...], normalization: int) -> Array:
    """Return the gradient from that of half of the spectrum: the half not computed has none."""
    widths = tuple((0, size - g.shape[axis] if axis == dim[-1] else 0) for axis in range(g.ndim))
    return xp.real(xp.fft_c2c(xp.pad(g, widths, 0), dim, normalization, False))


fft_r2c = op("fft_r2c", lambda xp, self, *, dim, normalization, onesided: xp.fft_r2c(self, dim, normalization, onesided),
             node="FftR2CBackward0", holomorphic=False,
             self=lambda xp, g, self, dim, normalization, onesided:
                 mirrored_gradient(xp, g, self.shape[dim[-1]], dim, normalization) if onesided else
                 xp.real(xp.fft_c2c(g, dim, normalization, False)))  # fmt: skip


def doubled_middle(xp: Namespace, half: Array, axis: int, last: int) -> Array:
    """Double the numbers that also stand for their mirror images."""
    twice = last - half.shape[axis]
    if not twice:
        return half
    parts = (
        xp.slice_along(half, axis, 0, 1),
        xp.slice_along(half, axis, 1, 1 + twice) * 2,
        xp.slice_along(half, axis, 1 + twice, half.shape[axis]),
    )
    return xp.concatenate(parts, axis)


fft_c2r = op("fft_c2r", lambda xp, self, *, dim, normalization, last: xp.fft_c2r(self, dim, normalization, last),
             node="FftC2RBackward0", holomorphic=False,
             self=lambda xp, g, dim, normalization, last: doubled_middle(
                 xp, xp.fft_r2c(g, dim, normalization, True), dim[-1], last))  # fmt: skip
