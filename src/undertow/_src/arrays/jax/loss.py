"""The losses of the vocabulary on JAX."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.jax.index import gather, is_named
from undertow._src.arrays.jax.tracing import IN_BOUNDS, as_short_index, is_traced
from undertow._src.arrays.numpy.loss import Lengths

Array = Any
Shape = tuple[int, ...]


def class_loss(
    x: Array, target: Array, weight: Array | None, ignore_index: int, reduction: int
) -> tuple[Array, Array, Array, Array]:
    """−weight · x[target] along the class axis (a mean divides by the weights), with the weights' sum.

    For the gradient also the targets as indices, and the factor of each x[target] in the result.
    """
    axis = 1 if x.ndim > 1 else 0
    ignored = target == ignore_index
    index = jnp.where(ignored, 0, as_short_index(target))
    of_class = jnp.ones((), x.dtype) if weight is None else jnp.asarray(weight).at[index].get(**IN_BOUNDS)
    slopes = jnp.where(ignored, 0, -of_class).astype(x.dtype)
    total = -jnp.sum(slopes)
    if reduction == 1:
        slopes = slopes / jnp.where(total == 0, 1, total) if target.size else slopes
    picked = gather(x, axis, jnp.expand_dims(index, axis)).reshape(target.shape)
    loss = jnp.where(ignored, 0, picked * slopes).astype(x.dtype)  # even if an infinity was picked there
    if reduction:
        loss = jnp.sum(loss)
        if reduction == 1:
            loss = jnp.where(total == 0, loss / total, loss)  # the mean of nothing is nan
    return loss, total, index.astype(np.int64), slopes


def class_loss_grad(g: Array, index: Array, slopes: Array, shape: Shape) -> Array:
    """g · slopes at the targets, zero elsewhere."""
    axis = 1 if len(shape) > 1 else 0
    values = jnp.expand_dims(slopes * g, axis)
    return jnp.where(is_named(jnp.expand_dims(index, axis), axis, shape[axis]), values, 0)


def class_weights(target: Array, weight: Array | None, ignore_index: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return targets as an index along the class axis, and their weights: the class's, or 0 if ignored."""
    axis = 1 if target.ndim else 0
    ignored = target == ignore_index
    index = jnp.where(ignored, 0, target).astype(np.int64)
    of_class = jnp.ones((), dtype) if weight is None else jnp.asarray(weight).at[as_short_index(index)].get(**IN_BOUNDS)
    return jnp.expand_dims(index, axis), jnp.where(ignored, 0, of_class).astype(dtype)


def labels(target: Array, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Return each row's labels up to the first −1 as indices (0 after them), a mask of them, and of their classes."""
    listed = lax.cummin((target >= 0).astype(np.int32), target.ndim - 1) > 0
    index = jnp.where(listed, target, 0).astype(np.int64)
    classes = np.arange(target.shape[-1], dtype=np.int32)
    labelled = jnp.any(listed[..., None] & (as_short_index(index)[..., None] == classes), -2)
    return index, listed.astype(dtype), labelled.astype(dtype)


# --- CTC: see numpy/loss.py for what the states are


def _states(targets: Array, target_lengths: Lengths, blank: int) -> tuple[Array, Array]:
    """(batch, states): the symbol of each state, and whether the state may be entered from two states back."""
    known = not is_traced(target_lengths)
    longest = max(target_lengths, default=0) if known else targets.shape[-1]
    lengths = _as_array(target_lengths)[:, None]
    column = np.arange(longest)
    if targets.ndim == 2:
        padded = targets[:, :longest]
    else:
        starts = jnp.cumsum(lengths[:, 0])[:, None] - lengths
        padded = targets[jnp.where(column < lengths, starts + column, 0).astype(np.int32)] if targets.size else targets
        padded = padded.reshape(len(target_lengths), longest)
    padded = jnp.where(column < lengths, padded, blank)
    blanks = jnp.full(padded.shape, blank, padded.dtype)
    last = jnp.full((len(target_lengths), 1), blank, padded.dtype)
    symbols = jnp.concatenate([jnp.stack([blanks, padded], 2).reshape(len(target_lengths), 2 * longest), last], 1)
    differ = jnp.concatenate([jnp.zeros((len(target_lengths), min(2, symbols.shape[1])), bool),
                              symbols[:, 2:] != symbols[:, :-2]], 1)  # fmt: skip
    return as_short_index(symbols), differ & (np.arange(symbols.shape[1]) % 2 == 1)


def _as_array(lengths: Any) -> Array:
    """Return lengths as an array, whether Python knows them or only the program."""
    return lengths if is_traced(lengths) else np.asarray(lengths)


def _shifted(x: Array, by: int) -> Array:
    """Shift states by one, with nothing before the first."""
    return lax.pad(x, jnp.asarray(-math.inf, x.dtype), ((0, 0, 0), (by, -by, 0)))


def _advance(before: Array, skips: Array) -> Array:
    """log Σ e^before over the states each state can be entered from."""
    skipped = jnp.where(skips, _shifted(before, 2), -math.inf)
    return jnp.logaddexp(jnp.logaddexp(before, _shifted(before, 1)), skipped)


def ctc_loss(
    log_probs: Array, targets: Array, input_lengths: Lengths, target_lengths: Lengths, blank: int
) -> tuple[Array, Array]:
    """−log of the probability of each target under log_probs (time, batch, symbol), and the table it is read from."""
    symbols, skips = _states(targets, target_lengths, blank)
    time, batch = log_probs.shape[:2]
    rows, state = np.arange(batch), np.arange(symbols.shape[1])
    times, end = _as_array(input_lengths), 2 * _as_array(target_lengths)
    scores = log_probs[:, rows[:, None], symbols]
    starts = (state == 0) | ((state == 1) & (end > 0)[:, None])
    first = jnp.where(starts, scores[0], -math.inf) if time else jnp.full(symbols.shape, -math.inf, log_probs.dtype)

    def step(before: Array, here: Array) -> tuple[Array, Array]:
        after = _advance(before, skips) + here
        return after, after

    _, later = lax.scan(step, first, scores[1:])
    alpha = jnp.concatenate([first[None], later], 0)
    last = jnp.maximum(times - 1, 0)
    before = jnp.where(end > 0, alpha[last, rows, jnp.maximum(end - 1, 0)], -math.inf)
    loss = -jnp.logaddexp(alpha[last, rows, end], before)
    loss = jnp.where(times == 0, jnp.where(end == 0, 0.0, math.inf), loss)
    return loss.astype(log_probs.dtype), jnp.swapaxes(alpha, 0, 1)


def ctc_loss_grad(
    g: Array, log_probs: Array, targets: Array, loss: Array, alpha: Array, input_lengths: Lengths,
    target_lengths: Lengths, blank: int, zero_infinity: bool,
) -> Array:  # fmt: skip
    """Return g · (e^log_probs − each symbol's share of the alignments), zero after each sequence's end."""
    symbols, skips = _states(targets, target_lengths, blank)
    time, batch, classes = log_probs.shape
    rows, state = np.arange(batch), np.arange(symbols.shape[1])
    last, end = _as_array(input_lengths) - 1, 2 * _as_array(target_lengths)[:, None]
    scores = log_probs[:, rows[:, None], symbols]
    # Backwards a skip starts where it arrived: two states on.
    leaving = jnp.flip(lax.pad(skips, np.False_, ((0, 0, 0), (-2, 2, 0))) if symbols.shape[1] > 2 else skips & False, 1)
    ends = (state == end) | ((state == end - 1) & (end > 0))

    def step(after: Array, given: Any) -> tuple[Array, Array]:
        at, here = given
        beta = jnp.flip(_advance(jnp.flip(after, 1), leaving), 1)
        beta = jnp.where((last <= at)[:, None], jnp.where((last == at)[:, None] & ends, 0.0, -math.inf), beta)
        return beta + here, beta

    nowhere = jnp.full(symbols.shape, -math.inf, log_probs.dtype)
    _, beta = lax.scan(step, nowhere, (np.arange(time), scores), reverse=True)
    shares = jnp.swapaxes(alpha, 0, 1)[:time] + beta.astype(log_probs.dtype) + loss[:, None]
    shares = jnp.exp(jnp.where(jnp.isnan(shares), -math.inf, shares))
    taken = jnp.zeros((time, batch, classes), log_probs.dtype).at[:, rows[:, None], symbols].add(shares)
    grad = (jnp.exp(log_probs) - taken) * g[:, None]
    if zero_infinity:
        grad = jnp.where(jnp.isinf(loss)[:, None], 0, grad)
    return jnp.where((np.arange(time)[:, None] > last)[..., None], 0, grad)
