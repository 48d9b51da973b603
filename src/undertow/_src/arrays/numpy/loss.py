"""Array functions of the losses: targets as indices and weights, and CTC's sum over alignments."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.arrays.numpy.scatter import Array, positions_along

Lengths = tuple[int, ...]


def class_loss(
    x: Array, target: Array, weight: Array | None, ignore_index: int, reduction: int
) -> tuple[Array, Array, Array, Array]:
    """−weight · x[target] along the class axis (a mean divides by the weights), with the weights' sum.

    For the gradient also the targets as indices, and the factor of each x[target] in the result.
    """
    axis, dtype = 1 if x.ndim > 1 else 0, x.dtype
    index, ignored = target, target == ignore_index
    slopes: Array
    total: Any
    some_ignored = np.count_nonzero(ignored) > 0
    if weight is None and not some_ignored:
        total = dtype.type(target.size)
        slopes = np.empty(target.shape, dtype)
        slopes.fill(-1 / total if reduction == 1 and total else -1)
    else:
        if some_ignored:
            index = np.where(ignored, 0, target)
            slopes = np.where(ignored, 0, -1 if weight is None else -weight[index]).astype(dtype, copy=False)
        else:
            assert weight is not None
            slopes = -weight[index]
        total = -np.add.reduce(slopes, axis=None)
        if reduction == 1:
            slopes = slopes / total if total or not slopes.size else slopes
    picked = _picked(x, index, axis)
    loss = picked * slopes
    if some_ignored:
        loss = np.where(ignored, dtype.type(0), loss)  # even if an infinity was picked there
    if reduction:
        loss = np.add.reduce(loss, axis=None) + dtype.type(0)  # no negative zero
        if reduction == 1 and not total:
            loss = loss / total
    return loss, np.asarray(total), index, slopes


def _picked(x: Array, index: Array, axis: int) -> Array:
    if x.ndim == 2:
        return x[np.arange(len(x)), index]
    return np.take_along_axis(x, _widened(index, axis), axis).reshape(index.shape)


def _widened(index: Array, axis: int) -> Array:
    """Return an index with an axis of length 1 inserted."""
    return index.reshape(*index.shape[:axis], 1, *index.shape[axis:])


def class_loss_grad(g: Array, index: Array, slopes: Array, shape: tuple[int, ...]) -> Array:
    """g · slopes at the targets, zero elsewhere."""
    values = slopes * g
    out = np.zeros(shape, values.dtype)
    if len(shape) == 2:
        out[np.arange(shape[0]), index] = values
        return out
    axis = 1 if len(shape) > 1 else 0
    np.put_along_axis(out, _widened(index, axis), _widened(values, axis), axis)
    return out


def class_weights(target: Array, weight: Array | None, ignore_index: int, dtype: np.dtype) -> tuple[Array, Array]:
    """Return targets as an index along the class axis, and their weights: the class's, or 0 if ignored."""
    axis = 1 if target.ndim else 0
    ignored = target == ignore_index
    if ignored.any():
        index = np.where(ignored, 0, target)
        weights = np.ones(target.shape, dtype) if weight is None else np.take(weight, index)
        return np.expand_dims(index, axis), np.where(ignored, dtype.type(0), weights)
    index = target.astype(np.int64, copy=False)
    weights = np.ones(target.shape, dtype) if weight is None else np.take(weight, index)
    return np.expand_dims(index, axis), weights


def put_along(values: Array, axis: int, index: Array, shape: tuple[int, ...]) -> Array:
    """Return zeros with out[index[i, j, …], j, …] = values[i, j, …] along an axis: gather's adjoint if no index repeats."""
    out = np.zeros(shape, values.dtype)
    out.reshape(-1)[positions_along(index, axis, shape)] = values.reshape(-1)
    return out


def labels(target: Array, dtype: np.dtype) -> tuple[Array, Array, Array]:
    """Return each row's labels up to the first −1 as indices (0 after them), a mask of them, and of their classes."""
    listed = np.logical_and.accumulate(target >= 0, axis=-1)
    index = np.where(listed, target, 0).astype(np.int64)
    labelled = np.zeros(target.shape, dtype)
    places = positions_along(index, target.ndim - 1, target.shape)
    np.maximum.at(labelled.reshape(-1), places, listed.reshape(-1).astype(dtype))
    return index, listed.astype(dtype), labelled


# --- CTC ----------------------------------------------------------------------------------------------------------
# A target of n labels is read as 2n + 1 states: blank, label, blank, …, label, blank. A step stays, moves on by one, or
# skips a blank between two different labels. All sequences of a batch advance together, padded to the longest target.


def _states(targets: Array, target_lengths: Lengths, blank: int) -> tuple[Array, Array]:
    """(batch, states): the symbol of each state, and whether the state may be entered from two states back."""
    batch, longest = len(target_lengths), max(target_lengths, default=0)
    padded = np.full((batch, longest), blank, np.int64)
    start = 0
    for row, length in enumerate(target_lengths):
        if targets.ndim == 2:
            padded[row, :length] = targets[row, :length]
        else:
            padded[row, :length] = targets[start : start + length]
            start += length
    symbols = np.full((batch, 2 * longest + 1), blank, np.int64)
    symbols[:, 1::2] = padded
    skips = np.zeros(symbols.shape, bool)
    skips[:, 3::2] = padded[:, 1:] != padded[:, :-1]
    return symbols, skips


def _advance(before: Array, skips: Array) -> Array:
    """log Σ e^before over the states each state can be entered from."""
    moved = np.full_like(before, -np.inf)
    moved[:, 1:] = before[:, :-1]
    skipped = np.full_like(before, -np.inf)
    skipped[:, 2:] = np.where(skips[:, 2:], before[:, :-2], -np.inf)
    return np.logaddexp(np.logaddexp(before, moved), skipped)


def ctc_loss(
    log_probs: Array, targets: Array, input_lengths: Lengths, target_lengths: Lengths, blank: int
) -> tuple[Array, Array]:
    """−log of the probability of each target under log_probs (time, batch, symbol), and the table it is read from."""
    symbols, skips = _states(targets, target_lengths, blank)
    time, batch = log_probs.shape[:2]
    alpha = np.full((max(time, 1), batch, symbols.shape[1]), -np.inf, log_probs.dtype)
    rows = np.arange(batch)
    scores = log_probs[:, rows[:, None], symbols]
    if time:
        alpha[0, :, 0] = scores[0, :, 0]
        some = np.asarray(target_lengths) > 0
        if symbols.shape[1] > 1:
            alpha[0, some, 1] = scores[0, some, 1]
    for step in range(1, time):
        alpha[step] = _advance(alpha[step - 1], skips) + scores[step]
    last, end = np.maximum(np.asarray(input_lengths) - 1, 0), 2 * np.asarray(target_lengths)
    total = alpha[last, rows, end]
    before = np.where(end > 0, alpha[last, rows, np.maximum(end - 1, 0)], -np.inf)
    loss = -np.logaddexp(total, before)
    nothing = np.asarray(input_lengths) == 0
    if nothing.any():
        loss = np.where(nothing, np.where(end == 0, 0, np.inf), loss)
    return loss.astype(log_probs.dtype), np.swapaxes(alpha, 0, 1)


def ctc_loss_grad(
    g: Array, log_probs: Array, targets: Array, loss: Array, alpha: Array, input_lengths: Lengths,
    target_lengths: Lengths, blank: int, zero_infinity: bool,
) -> Array:  # fmt: skip
    """Return g · (e^log_probs − each symbol's share of the alignments), zero after each sequence's end."""
    symbols, skips = _states(targets, target_lengths, blank)
    time, batch, classes = log_probs.shape
    rows, last, end = np.arange(batch), np.asarray(input_lengths) - 1, 2 * np.asarray(target_lengths)
    scores = log_probs[:, rows[:, None], symbols]
    reversed_skips = np.zeros_like(skips)
    reversed_skips[:, :-2] = skips[:, 2:]
    grad = np.exp(log_probs)
    beta = np.full(symbols.shape, -np.inf, log_probs.dtype)
    tables = np.swapaxes(alpha, 0, 1)
    for step in range(time - 1, -1, -1):
        follow = beta[:, ::-1]
        beta = _advance(follow, np.zeros_like(skips))
        moved = np.full_like(beta, -np.inf)
        moved[:, 2:] = follow[:, :-2]
        beta = np.logaddexp(beta, np.where(reversed_skips[:, ::-1], moved, -np.inf))[:, ::-1]
        starts = last == step
        beta = np.where((last < step)[:, None], -np.inf, beta)
        beta[starts, :] = -np.inf
        beta[starts, end[starts]] = 0
        labelled = starts & (end > 0)
        beta[labelled, end[labelled] - 1] = 0
        beta = beta + scores[step]
        shares = tables[step] + beta - scores[step] + loss[:, None]
        share = np.zeros((batch, classes), log_probs.dtype)
        np.add.at(share, (rows[:, None], symbols), np.exp(np.where(np.isnan(shares), -np.inf, shares)))
        grad[step] -= share
    grad *= g[:, None]
    grad[:, np.isinf(loss)] = 0 if zero_infinity else np.nan  # no alignment: more of any symbol would not help
    grad[np.arange(time)[:, None] > last] = 0
    return grad
