"""Distances between all pairs of rows, and products of two inputs with a weight."""

# fmt: off
from __future__ import annotations

from typing import TYPE_CHECKING

from undertow._src.rules.rule import op
from undertow._src.rules.vector_norm import vector_norm, vector_norm_gradient

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace

# `first` and `second` name the rows of each pair.
pdist = op("pdist", lambda xp, self, *, p, first, second: vector_norm(xp, between(xp, self, first, second), p, (1,), False),
           promote="same", accepts="f",
           self=lambda xp, g, self, result, p, first, second: pair_gradient(xp, g, self, result, p, first, second))

# Σᵢⱼ i1[n, i] i2[o, i, j] i3[n, j]
trilinear = op("_trilinear", lambda xp, i1, i2, i3: xp.squeeze(
                   xp.matmul(spread(xp, i2, i3), xp.expand_dims(i1, 2)), 2),
               node="TrilinearBackward0", promote="same", accepts="fc",
               i1=lambda xp, g, i2, i3: xp.squeeze(xp.matmul(xp.expand_dims(g, 1), spread(xp, i2, i3)), 1),
               i2=lambda xp, g, i1, i3, i2_spec: xp.reshape(
                   xp.matmul(xp.swapaxes(pairs(xp, g, i1), 0, 1), i3), i2_spec.shape),
               i3=lambda xp, g, i1, i2: xp.matmul(
                   pairs(xp, g, i1), xp.reshape(i2, (i2.shape[0] * i2.shape[1], i2.shape[2]))))
# fmt: on


def between(xp: Namespace, x: Array, first: object, second: object) -> Array:
    """Return the difference of each pair of rows."""
    return xp.take_rows(x, xp.constant(first)) - xp.take_rows(x, xp.constant(second))


def pair_gradient(xp: Namespace, g: Array, x: Array, result: Array, p: float, first: Array, second: Array) -> Array:
    """Add every pair's gradient to its first row, and subtract it from its second."""
    slopes = vector_norm_gradient(xp, g, between(xp, x, first, second), result, p, (1,), False)
    if slopes is None:
        return xp.zeros_like(x)
    count = x.shape[0]
    return xp.add_rows(slopes, xp.constant(first), count) - xp.add_rows(slopes, xp.constant(second), count)


def spread(xp: Namespace, weight: Array, x: Array) -> Array:
    """Σⱼ weight[o, i, j] x[n, j] as (n, o, i)."""
    outputs, left, right = weight.shape
    flat = xp.matmul(x, xp.swapaxes(xp.reshape(weight, (outputs * left, right)), 0, 1))
    return xp.reshape(flat, (x.shape[0], outputs, left))


def pairs(xp: Namespace, g: Array, x: Array) -> Array:
    """g[n, o] x[n, i] as (n, o·i)."""
    return xp.reshape(xp.expand_dims(g, 2) * xp.expand_dims(x, 1), (g.shape[0], g.shape[1] * x.shape[1]))
