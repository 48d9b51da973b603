"""The losses' part of the vocabulary on JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow.xp.jax_index import IN_BOUNDS, as_short_index, gather, is_named

Array = Any
Shape = tuple[int, ...]


def class_loss(
    x: Array, target: Array, weight: Array | None, ignore_index: int, reduction: int
) -> tuple[Array, Array, Array, Array]:
    """−weight · x[target] along the class axis (a mean divides by the weights), with the weights' sum.

    For the gradient also the targets as indices, and what each adds to the result per unit of x[target].
    """
    axis = 1 if x.ndim > 1 else 0
    ignored = target == ignore_index
    index = jnp.where(ignored, 0, as_short_index(target))
    of_class = jnp.ones((), x.dtype) if weight is None else weight.at[index].get(**IN_BOUNDS)
    slopes = jnp.where(ignored, 0, -of_class).astype(x.dtype)
    total = -jnp.sum(slopes)
    if reduction == 1:
        slopes = slopes / jnp.where(total == 0, 1, total) if target.size else slopes
    loss = gather(x, axis, jnp.expand_dims(index, axis)).reshape(target.shape) * slopes
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
    """Targets as an index along the class axis, and the weight of each: its class's, or 0 where it is ignored."""
    axis = 1 if target.ndim else 0
    ignored = target == ignore_index
    index = jnp.where(ignored, 0, target).astype(np.int64)
    of_class = jnp.ones((), dtype) if weight is None else weight.at[as_short_index(index)].get(**IN_BOUNDS)
    return jnp.expand_dims(index, axis), jnp.where(ignored, 0, of_class).astype(dtype)


def labels(target: Array, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """The labels listed in each row up to the first −1: as indices (0 behind them), which are listed, which classes are."""
    listed = lax.cummin((target >= 0).astype(np.int32), target.ndim - 1) > 0
    index = jnp.where(listed, target, 0).astype(np.int64)
    classes = np.arange(target.shape[-1], dtype=np.int32)
    labelled = jnp.any(listed[..., None] & (as_short_index(index)[..., None] == classes), -2)
    return index, listed.astype(dtype), labelled.astype(dtype)
