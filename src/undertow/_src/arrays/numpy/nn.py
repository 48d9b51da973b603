"""Softmax and logsumexp, each with its gradient in closed form. Norms are in norm.py.

Every function accepts any strides, never writes its arguments and returns fresh C-contiguous arrays of the input dtype;
half precision is computed in float32 and rounded once. Work on rows goes block by block, so that the passes over a block
find it in the cache.
"""

from __future__ import annotations

import math

import numpy as np

from undertow._src.arrays.numpy.rows import (
    Array,
    as_rows,
    dot_along,
    is_last,
    max_along,
    row_blocks,
    row_dots,
    row_maxima,
    row_sums,
    sum_along,
)
from undertow._src.arrays.quiet import quiet

# eˣ needs no shift while it, and a row's sum of it, stay far inside the float range.
_UNSHIFTED_LIMIT = {np.float32: 40.0, np.float64: 300.0}
_SMALLEST_UNSHIFTED_SUM = 1e-8
_FEW = 256  # elements up to which NumPy sums rows faster than a product with ones
_PLAIN = 4096  # elements up to which the plain expression beats rows and blocks
_HALF_AN_ULP = 3e-7  # precision of a float32 near 6: smaller errors are not worth a pass over the rows
_SMALL = 2048  # elements up to which checking whether a shift is needed costs more than shifting


def _is_half(x: Array) -> bool:
    return x.dtype.itemsize < 4


# --- softmax ------------------------------------------------------------------------------------------------------


def _unshifted_sums(source: Array, target: Array) -> Array | None:
    """Return row sums of eˣ, with eˣ left in target, if that is safe; NOTE: a row's maximum costs more than eˣ itself."""
    if source.size <= _SMALL or not source.max() <= _UNSHIFTED_LIMIT.get(source.dtype.type, -math.inf):
        return None
    np.exp(source, out=target)
    totals = row_sums(target)
    return totals if totals.min() >= _SMALLEST_UNSHIFTED_SUM else None  # None for a row that underflows, or has a nan


@quiet
def softmax(x: Array, axis: int) -> Array:
    """Return eˣ / Σ eˣ along an axis, shifted by the maximum where magnitudes require it."""
    if _is_half(x):
        return softmax(x.astype(np.float32), axis).astype(x.dtype)
    if 0 < x.size <= _PLAIN and x.ndim:
        out = np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), order="C")
        np.exp(out, out=out)
        out /= np.add.reduce(out, axis=axis, keepdims=True)
        return out
    out = np.empty(x.shape, x.dtype)
    if not x.size:
        return out
    if is_last(x, axis):
        rows, results = as_rows(x), as_rows(out)
        for block in row_blocks(rows):
            source, target = rows[block], results[block]
            totals = _unshifted_sums(source, target)
            if totals is None:
                np.subtract(source, row_maxima(source)[:, None], out=target)
                np.exp(target, out=target)
                totals = row_sums(target)
            np.multiply(target, np.reciprocal(totals)[:, None], out=target)
        return out
    np.subtract(x, max_along(x, axis), out=out)
    np.exp(out, out=out)
    return np.divide(out, sum_along(out, axis), out=out)


def _log_sums(source: Array, scratch: Array) -> tuple[Array, Array]:
    """log Σ eˣ of each row as head + rest, so that x − head is exact where x dominates its row; head may be infinite."""
    totals = _unshifted_sums(source, scratch)
    if totals is not None:
        exact = np.log(totals, dtype=np.float64)
        head = exact.astype(source.dtype)
        return head, (exact - head).astype(source.dtype)
    head = row_maxima(source) if source.dtype.kind != "c" else row_maxima(source.real).astype(source.dtype)
    np.subtract(source, head[:, None], out=scratch)
    np.exp(scratch, out=scratch)
    return head, np.log(row_sums(scratch))


@quiet
def log_softmax(x: Array, axis: int) -> Array:
    """x − log Σ eˣ along an axis, the logarithm in two parts."""
    if _is_half(x):
        return log_softmax(x.astype(np.float32), axis).astype(x.dtype)
    if 0 < x.size <= _PLAIN and x.ndim:
        out = np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), order="C")
        out -= np.log(np.add.reduce(np.exp(out), axis=axis, keepdims=True))
        return out
    out = np.empty(x.shape, x.dtype)
    if not x.size:
        return out
    if is_last(x, axis):
        rows, results = as_rows(x), as_rows(out)
        for block in row_blocks(rows):
            source, target = rows[block], results[block]
            head, rest = _log_sums(source, target)
            np.subtract(source, head[:, None], out=target)
            if not np.abs(rest).max() <= _HALF_AN_ULP:  # nan is not
                target -= rest[:, None]
        return out
    np.subtract(x, max_along(x, axis), out=out)
    return np.subtract(out, np.log(sum_along(np.exp(out), axis)), out=out)


@quiet
def logsumexp(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """log Σ eˣ over axes, shifted by the maximum where that is finite; its gradient is g · e^(x − result)."""
    if _is_half(x):
        return logsumexp(x.astype(np.float32), axes, keepdims).astype(x.dtype)
    reduced = {a % x.ndim for a in axes} if x.ndim else set()
    last = np.moveaxis(x, sorted(reduced), range(x.ndim - len(reduced), x.ndim))
    rows = as_rows(last, len(reduced))
    out = np.full(len(rows), -np.inf, x.dtype)
    if rows.shape[1]:
        for block in row_blocks(rows):
            head, rest = _log_sums(rows[block], np.empty(rows[block].shape, x.dtype))
            np.add(head, rest, out=out[block], where=np.isfinite(head))  # an infinite maximum is the result itself
            np.copyto(out[block], head, where=~np.isfinite(head))
    if keepdims:
        return out.reshape([1 if a in reduced else n for a, n in enumerate(x.shape)])
    return out.reshape(last.shape[: x.ndim - len(reduced)])


@quiet
def softmax_grad(g: Array, y: Array, axis: int) -> Array:
    """Through y = softmax(x): y (g − Σ g·y)."""
    if _is_half(g):
        return softmax_grad(g.astype(np.float32), y.astype(np.float32), axis).astype(g.dtype)
    if g.size <= _PLAIN and g.ndim:
        out = g - np.add.reduce(g * y, axis=axis, keepdims=True)
        out *= y
        return out
    out = np.empty(g.shape, g.dtype)
    if not is_last(g, axis):
        np.subtract(g, dot_along(g, y, axis), out=out)
        return np.multiply(out, y, out=out)
    gradients, weights, results = as_rows(g), as_rows(y), as_rows(out)
    for block in row_blocks(gradients):
        target = results[block]
        np.subtract(gradients[block], row_dots(gradients[block], weights[block])[:, None], out=target)
        target *= weights[block]
    return out


@quiet
def log_softmax_grad(g: Array, y: Array, axis: int) -> Array:
    """Through y = log_softmax(x): g − eʸ Σ g."""
    if _is_half(g):
        return log_softmax_grad(g.astype(np.float32), y.astype(np.float32), axis).astype(g.dtype)
    if 0 < g.size <= _FEW and g.ndim:
        out = np.exp(y, order="C")
        out *= np.add.reduce(g, axis=axis, keepdims=True)
        return np.subtract(g, out, out=out)
    out = np.empty(g.shape, g.dtype)
    np.exp(y, out=out)
    np.multiply(out, sum_along(g, axis), out=out)
    return np.subtract(g, out, out=out)
