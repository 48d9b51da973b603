"""Resizing along an axis: the index and weight tables of nearest, linear and cubic interpolation.

Interpolation of several axes is one axis after another. An axis is described by its taps: output i is
Σₜ weights[i, t] · x[indices[i, t]]. `resize` applies them and `resize_adjoint` is its transpose, so each is the other's
gradient. Scales and source positions are computed in the data's precision, as PyTorch does, because rounding decides which
neighbour is nearest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from undertow._src.arrays.numpy.scatter import index_add

Array = np.ndarray[Any, np.dtype[Any]]

_LONGEST_DENSE_AXIS = 128  # up to this many elements a dense matrix product beats picking taps


class Taps:
    """For each output along an axis of `size` elements: which elements it reads and with what weights, (count, taps)."""

    __slots__ = ("indices", "weights", "size")

    def __init__(self, indices: Array, weights: Array, size: int) -> None:
        self.indices, self.weights, self.size = indices, weights, size

    def astype(self, dtype: Any) -> Taps:
        return Taps(self.indices, self.weights.astype(dtype, copy=False), self.size)


def _scale(size: int, count: int, align_corners: bool, scale_factor: float | None, real: type) -> Any:
    """Input elements per output element."""
    if align_corners:
        return real(size - 1) / real(count - 1) if count > 1 else real(0)
    if scale_factor is not None and scale_factor > 0:
        return real(1.0 / scale_factor)
    return real(size) / real(count)


def nearest_indices(size: int, count: int, scale_factor: float | None = None, exact: bool = False,
                    dtype: Any = np.float32) -> Array:  # fmt: skip
    """Return the element that each output copies: ⌊i·scale⌋, or ⌊(i + ½)·scale⌋ for nearest-exact."""
    real = _real(dtype)
    if exact:  # by way of the pixel centre, which rounds differently
        position = np.maximum(_source_positions(size, count, False, scale_factor, real), real(0)) + real(0.5)
    else:
        position = np.arange(count, dtype=real) * _scale(size, count, False, scale_factor, real)
    return np.minimum(np.floor(position.astype(np.float32)).astype(np.intp), size - 1)


def _real(dtype: Any) -> type:
    """Return the dtype of positions: float64 for float64 data, else float32."""
    return np.float64 if np.dtype(dtype) == np.float64 else np.float32


def _identity_taps(size: int, real: type) -> Taps:
    return Taps(np.arange(size)[:, None], np.ones((size, 1), real), size)


def _source_positions(size: int, count: int, align_corners: bool, scale_factor: float | None, real: type) -> Array:
    """Return where each output is on the input's axis: i·scale, or (i + ½)·scale − ½ for pixel centres."""
    scale = _scale(size, count, align_corners, scale_factor, real)
    place: Array = np.arange(count, dtype=real)
    return place * scale if align_corners else (place + real(0.5)) * scale - real(0.5)


def linear_taps(size: int, count: int, align_corners: bool = False, scale_factor: float | None = None,
                dtype: Any = np.float32) -> Taps:  # fmt: skip
    """Return the two neighbours of each output, weighted by distance."""
    real = _real(dtype)
    if size == count:  # whatever the scale factor is
        return _identity_taps(size, real)
    position = np.maximum(_source_positions(size, count, align_corners, scale_factor, real), real(0))
    left = np.minimum(np.floor(position).astype(np.intp), size - 1)
    right = np.minimum(left + 1, size - 1)
    share = np.clip(position - left.astype(real), real(0), real(1))
    return Taps(np.stack([left, right], axis=1), np.stack([real(1) - share, share], axis=1), size)


def _cubic_kernel(distance: Array, a: float) -> Array:
    """Keys' cubic convolution kernel, zero from distance 2 on."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _hat_kernel(distance: Array) -> Array:
    return np.maximum(1 - np.abs(distance), 0)


def cubic_taps(size: int, count: int, align_corners: bool = False, scale_factor: float | None = None,
               dtype: Any = np.float32) -> Taps:  # fmt: skip
    """Return the four neighbours of each output under Keys' kernel with a = −0.75; the border repeats."""
    real = _real(dtype)
    position = _source_positions(size, count, align_corners, scale_factor, real)
    base = np.floor(position)
    share = position - base
    steps = np.arange(-1, 3)
    weights = _cubic_kernel(share[:, None].astype(np.float64) - steps, -0.75)
    indices = np.clip(base.astype(np.intp)[:, None] + steps, 0, size - 1)
    return Taps(indices, weights.astype(real), size)


def _lanczos_kernel(distance: Array) -> Array:
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0)


def antialias_taps(size: int, count: int, cubic: bool, align_corners: bool = False, scale_factor: float | None = None,
                   dtype: Any = np.float32, lanczos: bool = False) -> Taps:  # fmt: skip
    """Linear, cubic (a = −0.5) or Lanczos (3 lobes) interpolation whose kernel widens when the axis shrinks.

    Weights sum to one.
    """
    real = _real(dtype)
    if size == count:
        return _identity_taps(size, real)
    scale = float(_scale(size, count, align_corners, scale_factor, real))
    stretch = max(scale, 1.0)
    support = (3.0 if lanczos else 2.0 if cubic else 1.0) * stretch
    center = scale * (np.arange(count) + 0.5)
    start = np.maximum((center - support + 0.5).astype(np.intp), 0)
    stop = np.minimum((center + support + 0.5).astype(np.intp), size)
    places = start[:, None] + np.arange(max(1, int((stop - start).max(initial=1))))
    distance = (places - center[:, None] + 0.5) / stretch
    weights = _cubic_kernel(distance, -0.5) if cubic else _hat_kernel(distance)
    if lanczos:
        weights = _lanczos_kernel(distance)
    weights = np.where(places < stop[:, None], weights, 0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return Taps(np.minimum(places, size - 1), weights.astype(real), size)


def resize_matrix(taps: Taps) -> Array:
    """Return the taps as a dense (count, size) matrix."""
    matrix = np.zeros((len(taps.indices), taps.size), taps.weights.dtype)
    np.add.at(matrix, (np.arange(len(taps.indices))[:, None], taps.indices), taps.weights)
    return matrix


def _compute_dtype(x: Array) -> np.dtype:
    return np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype


def _apply_matrix(x: Array, matrix: Array, axis: int) -> Array:
    """matrix · x along an axis, as one product or a product per leading index."""
    if axis == x.ndim - 1:
        return np.matmul(x.reshape(-1, x.shape[-1]), matrix.T).reshape(*x.shape[:-1], len(matrix))
    inner = math.prod(x.shape[axis + 1 :])
    product = np.matmul(matrix, x.reshape(-1, x.shape[axis], inner))
    return product.reshape(*x.shape[:axis], len(matrix), *x.shape[axis + 1 :])


@np.errstate(all="ignore")
def resize(x: Array, taps: Taps, axis: int) -> Array:
    """Along an axis, out[i] = Σₜ weights[i, t] x[indices[i, t]]; the adjoint of resize_adjoint."""
    dtype, axis = _compute_dtype(x), axis % x.ndim
    taps = taps.astype(dtype)
    weights = taps.weights
    if x.size and taps.size <= _LONGEST_DENSE_AXIS:
        out = _apply_matrix(x.astype(dtype, copy=False), resize_matrix(taps), axis)
        if np.isfinite(np.sum(out)):  # else an inf or nan met a zero of the matrix: read the taps alone
            return out.astype(x.dtype, copy=False)
    shape = [1] * x.ndim
    shape[axis] = -1
    out = np.zeros((*x.shape[:axis], len(taps.indices), *x.shape[axis + 1 :]), dtype)
    for t in range(weights.shape[1]):
        out += np.take(x, taps.indices[:, t], axis) * weights[:, t].reshape(shape)
    return out.astype(x.dtype, copy=False)


@np.errstate(all="ignore")
def resize_adjoint(g: Array, taps: Taps, axis: int) -> Array:
    """Along an axis, out[indices[i, t]] += weights[i, t] g[i]; the adjoint of resize."""
    dtype, axis = _compute_dtype(g), axis % g.ndim
    taps = taps.astype(dtype)
    weights = taps.weights
    if g.size and len(taps.indices) <= _LONGEST_DENSE_AXIS:
        out = _apply_matrix(g.astype(dtype, copy=False), resize_matrix(taps).T, axis)
        if np.isfinite(np.sum(out)):
            return out.astype(g.dtype, copy=False)
    shape = [1] * g.ndim
    shape[axis] = -1
    out = np.zeros((*g.shape[:axis], taps.size, *g.shape[axis + 1 :]), dtype)
    for t in range(weights.shape[1]):
        used = np.flatnonzero(weights[:, t])  # a weight of zero reads nothing, not even an inf
        part = np.take(g, used, axis) * weights[used, t].reshape(shape)
        out = index_add(out, axis, taps.indices[used, t], part)
    return out.astype(g.dtype, copy=False)
