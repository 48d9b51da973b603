"""Attention, softmax(q kᵀ · scale + mask) v, over heads (batch, head, position, channel), and its gradients.

Heads are handled a few at a time, so that their weights stay in the cache. Results and gradients have the layout of the
query, key or value: heads that are views of (batch, position, head, channel) give results that flatten without a copy.

NOTE: what is kept for the gradient. Up to `_KEPT_BYTES` of weights are kept as e^(q kᵀ) before they are divided by
their sums; beyond that only the logarithms of the sums are, and the weights are recomputed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from undertow._src.arrays.numpy.rows import Array, as_rows, row_maxima, row_sums

_BLOCK_BYTES = 1 << 19  # weights computed at a time
_KEPT_BYTES = 1 << 26
_CAUSAL_ROWS = 64  # rows of causal attention computed together: positions that none of them sees are skipped
_UNSHIFTED_LIMIT = (
    40.0  # up to this magnitude of scores, e^score and a row's sum of them stay far inside the float range
)


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float
) -> tuple[Array, Array, Array]:
    """Return the result, and for the gradient the rows' factors (or logarithms of sums) and the weights (or nothing)."""
    k, v = _repeated(k, q), _repeated(v, q)
    (batch, heads, length, _), source = q.shape, k.shape[2]
    out = _like(q, v.shape[3])
    rows = np.empty((batch, heads, length, 1), q.dtype)
    parts = _row_parts(length, source, causal)
    size = batch * heads * sum((part.stop - part.start) * seen.stop for part, seen in parts)
    keep = size * q.itemsize <= _KEPT_BYTES
    weights = np.empty(size if keep else 0, q.dtype)
    place = 0
    for block in _blocks(batch, heads, length * source * q.itemsize):
        query, key, value = q[block] * q.dtype.type(scale), k[block].swapaxes(2, 3), v[block]
        for part, seen in parts:
            scores, place = _kept(weights, place, query, part, seen)
            scores = np.matmul(query[:, :, part], key[..., seen], out=scores)
            factor, logarithm = _exponentials(scores, _part(mask, block), part.start if causal else None)
            here = out[(*block, part)]
            np.matmul(scores, value[:, :, seen], out=here)
            here *= factor
            rows[(*block, part)] = factor if keep else logarithm
    return out, rows, weights


def attention_grad(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, rows: Array, weights: Array, causal: bool,
    scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the gradients of q, k and v.

    With weights p: ∂v = pᵀ g,  ∂scores = p · (g vᵀ − Σ g · out),  ∂q = ∂scores k,  ∂k = ∂scoresᵀ q.
    """
    key_shape, value_shape = k.shape, v.shape
    k, v = _repeated(k, q), _repeated(v, q)
    (batch, heads, length, _), source = q.shape, k.shape[2]
    q_grad, k_grad, v_grad = _like(q), _like(k), _like(v)
    place = 0
    for block in _blocks(batch, heads, length * source * q.itemsize):
        query, key, value = q[block] * q.dtype.type(scale), k[block], v[block].swapaxes(2, 3)
        for part, seen in _row_parts(length, source, causal):
            incoming = g[(*block, part)]
            kept, place = _kept(weights, place, query, part, seen)
            if kept is not None:
                probabilities, incoming = kept, incoming * rows[(*block, part)]
            else:
                probabilities = np.matmul(query[:, :, part], key[:, :, seen].swapaxes(2, 3))
                _add_mask(probabilities, _part(mask, block))
                probabilities -= rows[(*block, part)]
                np.exp(probabilities, out=probabilities)
                _hide_later(probabilities, part.start if causal else None, 0)
            slopes = np.matmul(incoming, value[..., seen])
            slopes -= np.vecdot(incoming, out[(*block, part)])[..., None]
            slopes *= probabilities
            np.matmul(slopes, key[:, :, seen], out=q_grad[(*block, part)])
            if part.stop == length:  # the last rows come first, and see everything that any row sees
                np.matmul(probabilities.swapaxes(2, 3), incoming, out=v_grad[block][:, :, seen])
                np.matmul(slopes.swapaxes(2, 3), query[:, :, part], out=k_grad[block][:, :, seen])
                v_grad[block][:, :, seen.stop :] = k_grad[block][:, :, seen.stop :] = 0
            else:
                v_grad[block][:, :, seen] += np.matmul(probabilities.swapaxes(2, 3), incoming)
                k_grad[block][:, :, seen] += np.matmul(slopes.swapaxes(2, 3), query[:, :, part])
    q_grad *= q.dtype.type(scale)
    return q_grad, _unrepeated(k_grad, key_shape), _unrepeated(v_grad, value_shape)


def _kept(weights: Array, place: int, query: Array, part: slice, seen: slice) -> tuple[Array | None, int]:
    """Return the next of the kept weights, and the offset after them; None if nothing is kept."""
    if not weights.size:
        return None, place
    shape = (*query.shape[:2], part.stop - part.start, seen.stop)
    stop = place + math.prod(shape)
    return weights[place:stop].reshape(shape), stop


def _exponentials(scores: Array, mask: Array | None, first: int | None) -> tuple[Array, Array]:
    """Turn scores into e^scores in place; return the rows' factors, and the logarithms of their sums.

    `first`: the number of the first row, for causal attention.
    """
    shape = (*scores.shape[:3], 1)
    if not scores.size:
        return np.zeros(shape, scores.dtype), np.zeros(shape, scores.dtype)
    shift: Array | int = 0
    if mask is not None or scores.max() > _UNSHIFTED_LIMIT or scores.min() < -_UNSHIFTED_LIMIT:
        _add_mask(scores, mask)
        _hide_later(scores, first, -np.inf)
        shift = row_maxima(as_rows(scores)).reshape(shape)
        shift[np.isneginf(shift)] = 0  # a fully masked row: its weights are zero
        scores -= shift
    np.exp(scores, out=scores)
    _hide_later(scores, first, 0)
    sums = row_sums(as_rows(scores)).reshape(shape)
    factor, logarithm = np.reciprocal(sums), np.log(sums) + shift
    nothing = sums == 0
    factor[nothing] = 0
    logarithm[nothing] = np.inf
    return factor, logarithm


def _hide_later(scores: Array, first: int | None, value: float) -> None:
    """Put a value where a row would see a later position. The rows begin with number `first`."""
    if first is None:
        return
    corner = scores[..., first:]
    allowed = np.tri(*corner.shape[2:], dtype=scores.dtype)
    if value == 0:
        corner *= allowed
    else:
        np.copyto(corner, value, where=allowed == 0)


def _row_parts(length: int, source: int, causal: bool) -> list[tuple[slice, slice]]:
    """Yield rows computed together, the last first, and the positions that they see."""
    if not causal or length < 2 * _CAUSAL_ROWS:
        return [(slice(0, length), slice(0, min(length, source) if causal else source))]
    starts = range(0, length, _CAUSAL_ROWS)
    parts = [slice(start, min(start + _CAUSAL_ROWS, length)) for start in starts]
    return [(part, slice(0, min(part.stop, source))) for part in reversed(parts)]


def _add_mask(scores: Array, mask: Array | None) -> None:
    if mask is not None:
        scores += mask


def _blocks(batch: int, heads: int, head_bytes: int) -> Iterator[tuple[slice, slice]]:
    """Yield batches and heads whose weights fit the cache together."""
    together = max(1, _BLOCK_BYTES // max(1, head_bytes))
    if together >= heads:
        step = max(1, together // max(1, heads))
        for start in range(0, batch, step):
            yield slice(start, min(start + step, batch)), slice(None)
        return
    for item in range(batch):
        for start in range(0, heads, together):
            yield slice(item, item + 1), slice(start, min(start + together, heads))


def _part(mask: Array | None, block: tuple[slice, slice]) -> Array | None:
    """Return the block of a mask that is broadcast over batches or heads."""
    if mask is None:
        return None
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    return mask[tuple(part if n > 1 else slice(None) for part, n in zip(block, mask.shape[:2], strict=True))]


def _like(x: Array, channels: int | None = None) -> Array:
    """Allocate an array like x, in x's order of axes."""
    shape = x.shape[:3] + (x.shape[3] if channels is None else channels,)
    return np.empty_like(x, order="K", shape=shape)


def _repeated(x: Array, q: Array) -> Array:
    """Repeat key or value heads that several query heads share, once for each."""
    return x if x.shape[1] == q.shape[1] else np.repeat(x, q.shape[1] // x.shape[1], axis=1)


def _unrepeated(grad: Array, shape: tuple[int, ...]) -> Array:
    if grad.shape == shape:
        return grad
    batch, heads, length, channels = shape
    return np.add.reduce(grad.reshape(batch, heads, -1, length, channels), axis=2)
