"""Attention, softmax(q kᵀ · scale + mask) v, over heads (batch, head, position, channel), and its gradients.

Heads are handled a few at a time, so that their weights stay in the cache. Results and gradients are laid out in memory as
the query, key or value is: heads that are views of (batch, position, head, channel) give results that flatten for free.

NOTE: what is kept for the gradient. Up to `_KEPT_BYTES` of weights are kept as e^(q kᵀ) before they are divided by their
sums; beyond that only the logarithms of the sums are, and the weights are computed again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from undertow.xp.numpy_rows import Array, as_rows, row_maxima, row_sums

_BLOCK_BYTES = 1 << 19  # weights computed at a time
_KEPT_BYTES = 1 << 26
_UNSHIFTED_LIMIT = 40.0  # up to this size of scores, e^score and a row's sum of them stay far inside the float range


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float
) -> tuple[Array, Array, Array]:
    """The result, and for the gradient the rows' factors (or logarithms of sums) and the weights (or nothing)."""
    k, v = _repeated(k, q), _repeated(v, q)
    (batch, heads, length, _), source = q.shape, k.shape[2]
    out = _like(q, v.shape[3])
    rows = np.empty((batch, heads, length, 1), q.dtype)
    keep = batch * heads * length * source * q.itemsize <= _KEPT_BYTES
    weights = np.empty((batch, heads, length, source) if keep else (0,), q.dtype)
    later = _later(length, source, q.dtype) if causal else None
    for block in _blocks(batch, heads, length * source * q.itemsize):
        scores = weights[block] if keep else None
        scores = np.matmul(q[block] * q.dtype.type(scale), k[block].swapaxes(2, 3), out=scores)
        factor, logarithm = _exponentials(scores, _part(mask, block), later)
        np.matmul(scores, v[block], out=out[block])
        out[block] *= factor
        rows[block] = factor if keep else logarithm
    return out, rows, weights


def attention_grad(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, rows: Array, weights: Array, causal: bool,
    scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradients of q, k and v: with weights p,

    ∂v = pᵀ g,  ∂scores = p · (g vᵀ − Σ g · out),  ∂q = ∂scores k,  ∂k = ∂scoresᵀ q.
    """
    key_shape, value_shape = k.shape, v.shape
    k, v = _repeated(k, q), _repeated(v, q)
    (batch, heads, length, _), source = q.shape, k.shape[2]
    q_grad, k_grad, v_grad = _like(q), _like(k), _like(v)
    later = _later(length, source, q.dtype) if causal else None
    for block in _blocks(batch, heads, length * source * q.itemsize):
        query, key, part = q[block] * q.dtype.type(scale), k[block], g[block]
        if weights.ndim == 4:
            probabilities, part = weights[block], part * rows[block]
        else:
            probabilities = np.matmul(query, key.swapaxes(2, 3))
            _add_mask(probabilities, _part(mask, block))
            probabilities -= rows[block]
            np.exp(probabilities, out=probabilities)
            if later is not None:
                probabilities *= later
        np.matmul(probabilities.swapaxes(2, 3), part, out=v_grad[block])
        slopes = np.matmul(part, v[block].swapaxes(2, 3))
        slopes -= np.vecdot(part, out[block])[..., None]
        slopes *= probabilities
        np.matmul(slopes, key, out=q_grad[block])
        np.matmul(slopes.swapaxes(2, 3), query, out=k_grad[block])
    q_grad *= q.dtype.type(scale)
    return q_grad, _unrepeated(k_grad, key_shape), _unrepeated(v_grad, value_shape)


def _exponentials(scores: Array, mask: Array | None, later: Array | None) -> tuple[Array, Array]:
    """Turns scores into e^scores in place; what rows are to be multiplied by, and the logarithms of their sums."""
    shape = (*scores.shape[:3], 1)
    if not scores.size:
        return np.zeros(shape, scores.dtype), np.zeros(shape, scores.dtype)
    shift: Array | int = 0
    if mask is not None or scores.max() > _UNSHIFTED_LIMIT or scores.min() < -_UNSHIFTED_LIMIT:
        _add_mask(scores, mask)
        if later is not None:
            np.copyto(scores, -np.inf, where=later == 0)
        shift = row_maxima(as_rows(scores)).reshape(shape)
        shift[np.isneginf(shift)] = 0  # a row that is masked altogether: its weights are zero
        scores -= shift
    np.exp(scores, out=scores)
    if later is not None:
        scores *= later
    sums = row_sums(as_rows(scores)).reshape(shape)
    factor, logarithm = np.reciprocal(sums), np.log(sums) + shift
    nothing = sums == 0
    factor[nothing] = 0
    logarithm[nothing] = np.inf
    return factor, logarithm


def _add_mask(scores: Array, mask: Array | None) -> None:
    if mask is not None:
        scores += mask


def _later(length: int, source: int, dtype: np.dtype) -> Array:
    """1 where a position may look, 0 where it would look at a later one."""
    return np.tri(length, source, dtype=dtype)


def _blocks(batch: int, heads: int, head_bytes: int) -> Iterator[tuple[slice, slice]]:
    """Batches and heads whose weights fit the cache together."""
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
    """The block of a mask that stretches over batches or heads."""
    if mask is None:
        return None
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    return mask[tuple(part if n > 1 else slice(None) for part, n in zip(block, mask.shape[:2], strict=True))]


def _like(x: Array, channels: int | None = None) -> Array:
    """Memory for an array like x, in x's order of axes."""
    shape = x.shape[:3] + (x.shape[3] if channels is None else channels,)
    return np.empty_like(x, order="K", shape=shape)


def _repeated(x: Array, q: Array) -> Array:
    """Key or value heads that several query heads share, once for each."""
    return x if x.shape[1] == q.shape[1] else np.repeat(x, q.shape[1] // x.shape[1], axis=1)


def _unrepeated(grad: Array, shape: tuple[int, ...]) -> Array:
    if grad.shape == shape:
        return grad
    batch, heads, length, channels = shape
    return np.add.reduce(grad.reshape(batch, heads, -1, length, channels), axis=2)
