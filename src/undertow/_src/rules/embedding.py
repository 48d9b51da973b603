"""Rows of a table by index, one by one or in bags. `take_rows` and `add_rows` are each other's adjoint."""

# fmt: off
from __future__ import annotations

from typing import TYPE_CHECKING

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

embedding = op("embedding",
    lambda xp, weight, indices, *, padding_idx, scale_grad_by_freq, sparse: xp.take_rows(weight, indices),
    weight=lambda xp, g, indices, weight_spec, padding_idx, scale_grad_by_freq, sparse: table_grad(
        xp, g, indices, weight_spec.shape[0], padding_idx, scale_grad_by_freq, sparse))

# The gradient as a separate rule, for a recorded backward pass.

embedding_grad = op("embedding_dense_backward",
    lambda xp, grad_output, indices, *, num_weights, padding_idx, scale_grad_by_freq: xp.embedding_grad(
        grad_output, indices, num_weights, padding_idx, scale_grad_by_freq),
    grad_output=lambda xp, g, indices, padding_idx: taken_but_padding(xp, g, indices, padding_idx))

take_rows = op("embedding", lambda xp, self, indices: xp.take_rows(self, indices),
               self=lambda xp, g, indices, self_spec: xp.add_rows(g, indices, self_spec.shape[0]))

add_rows = op("embedding_dense_backward", lambda xp, self, indices, *, count: xp.add_rows(self, indices, count),
              self=lambda xp, g, indices: xp.take_rows(g, indices))

# --- bags: `bags` says which one each index belongs to, `scale` its weight (of a mean; zero for padding)

bag_sum = op("embedding_bag",
    lambda xp, weight, per_sample_weights, indices, bags, scale, *, count, scale_grad_by_freq, sparse, padding_idx:
        xp.add_rows(xp.take_rows(weight, indices) * xp.expand_dims(times(scale, per_sample_weights), 1), bags, count),
    weight=lambda xp, g, weight_spec, per_sample_weights, indices, bags, scale, scale_grad_by_freq, sparse, padding_idx:
        table_grad(xp, xp.take_rows(g, bags) * xp.expand_dims(times(scale, per_sample_weights), 1), indices,
                   weight_spec.shape[0], padding_idx, scale_grad_by_freq, sparse),
    per_sample_weights=lambda xp, g, weight, indices, bags, scale: scale * xp.sum(
        xp.take_rows(g, bags) * xp.take_rows(weight, indices), axis=(1,)))

bag_max = op("embedding_bag",
    lambda xp, weight, indices, bags, scale, *, count: xp.bag_max(weight, indices, bags, scale, count),
    hidden=("result3",),
    weight=lambda xp, g, weight_spec, result3: xp.bag_max_grad(g, result3, weight_spec.shape))

bag_max_grad = op("embedding_bag_backward", lambda xp, self, chosen, *, shape: xp.bag_max_grad(self, chosen, shape),
                  self=lambda xp, g, chosen: xp.bag_max_take(g, chosen))

bag_max_take = op("embedding_bag", lambda xp, self, chosen: xp.bag_max_take(self, chosen),
                  self=lambda xp, g, chosen, self_spec: xp.bag_max_grad(g, chosen, self_spec.shape))
# fmt: on


def table_grad(
    xp: Namespace, g: Array, indices: Array, count: int, padding_idx: int, by_frequency: bool, sparse: bool
) -> Array:
    """Return the gradient of a table that rows were taken from: dense, or sparse with only the rows used."""
    if not sparse:
        return xp.embedding_grad(g, indices, count, padding_idx, by_frequency)
    if by_frequency:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    return xp.sparse_embedding_grad(g, indices, count, padding_idx)


def times(scale: Array, weights: object) -> Array:
    return scale if weights is None else scale * weights


def taken_but_padding(xp: Namespace, g: Array, indices: Array, padding_idx: int) -> Array:
    """Return the adjoint of `embedding_grad`: rows by index, zeros for padding. PyTorch ignores frequencies here."""
    taken = xp.take_rows(g, indices)
    if padding_idx < 0:
        return taken
    return xp.where(xp.expand_dims(indices == padding_idx, indices.ndim), xp.zeros_like(taken), taken)
