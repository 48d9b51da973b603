"""Distances between all rows of one matrix and all rows of another, on NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any

_FEW_ROWS = 25  # number of rows up to which distances are computed pair by pair, without the rounding of a product


def are_many(x1: Array, x2: Array) -> bool:
    """Whether distances are computed by a matrix product."""
    return max(x1.shape[-2], x2.shape[-2]) > _FEW_ROWS


def pair_distances(x1: Array, x2: Array, p: float) -> Array:
    """Return the p-norm of every row of x1 minus every row of x2; for many rows the Euclidean one by a matrix product."""
    if p == 2 and are_many(x1, x2):
        squares = (x1 * x1).sum(-1)[..., :, None] + (x2 * x2).sum(-1)[..., None, :]
        return np.sqrt(np.maximum(squares - 2 * (x1 @ np.swapaxes(x2, -2, -1)), 0))
    apart = np.abs(x1[..., :, None, :] - x2[..., None, :, :])
    if p == 2:
        return np.sqrt(np.einsum("...i,...i->...", apart, apart))
    if p == 1:
        return apart.sum(-1)
    if p == math.inf:
        return np.maximum.reduce(apart, -1, initial=0)
    if p == 0:
        return (apart != 0).sum(-1).astype(apart.dtype)
    return (apart**p).sum(-1) ** (1.0 / p)


def pair_distances_grad(g: Array, x1: Array, x2: Array, result: Array, p: float, np: Any = np) -> tuple[Array, Array]:
    """Return the gradients of both sides, along every pair's difference. `np` is NumPy or jax.numpy."""
    if p == 2:
        pull = np.where(result == 0, 0, g / np.where(result == 0, 1, result))
        of_x1 = x1 * pull.sum(-1)[..., None] - pull @ x2
        of_x2 = x2 * pull.sum(-2)[..., None] - np.swapaxes(pull, -2, -1) @ x1
    else:
        apart = x1[..., :, None, :] - x2[..., None, :, :]
        by_pair = _pulls(g[..., None], apart, result[..., None], p, np)
        of_x1, of_x2 = by_pair.sum(-2), -by_pair.sum(-3)
    return _sum_leading(of_x1, x1.shape), _sum_leading(of_x2, x2.shape)


def _pulls(g: Array, apart: Array, result: Array, p: float, np: Any) -> Array:
    size = np.abs(apart)
    if p == 0:
        return np.zeros_like(apart)
    if p == math.inf:
        return np.sign(apart) * (size == result) * g
    if p == 1:
        return np.sign(apart) * g
    scale = np.where(result == 0, 0, g * np.where(result == 0, 1, result) ** (1 - p))
    return np.sign(apart) * np.where(size == 0, 0, np.where(size == 0, 1, size) ** (p - 1)) * scale


def _sum_leading(x: Array, shape: tuple[int, ...]) -> Array:
    lead = x.ndim - len(shape)
    axes = tuple([axis for axis, n in enumerate(x.shape) if axis < lead or (shape[axis - lead] == 1 and n != 1)])
    return x.sum(axes).reshape(shape) if axes else x
