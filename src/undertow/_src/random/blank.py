"""Draws for tensors without values: arrays without values in place of numbers. No generator advances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from undertow._src.arrays.unvalued import without_values
from undertow._src.random.cpu_stream import Stream

Array = Any


def _blank(n: int, dtype: DTypeLike) -> Array:
    return without_values((n,), np.dtype(dtype))


def _each(array: Array) -> Array:
    return without_values(array.shape, array.dtype)


class BlankStream(Stream):
    """A stream that draws nothing."""

    def __init__(self) -> None:
        pass

    def uniform(self, n: int, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        return _blank(n, dtype)

    def bernoulli(self, n: int, p: float = 0.5, dtype: DTypeLike = np.bool_) -> Array:
        return _blank(n, dtype)

    def exponential(self, n: int, rate: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        return _blank(n, dtype)

    def dropout_noise(self, n: int, p: float, dtype: DTypeLike = np.float32) -> Array:
        return _blank(n, dtype)

    def alpha_dropout_noise(self, n: int, p: float, dtype: DTypeLike = np.float32) -> tuple[Array, Array]:
        return _blank(n, dtype), _blank(n, dtype)

    def bernoulli_each(self, probabilities: Array, dtype: DTypeLike | None = None) -> Array:
        return _each(probabilities)

    def poisson(self, rates: Array) -> Array:
        return _each(rates)

    def binomial(self, counts: Array, probabilities: Array) -> Array:
        return _each(counts)

    def slopes_below_zero(self, values: Array, lower: float, upper: float) -> Array:
        return _each(values)

    def multinomial(self, weights: Array, samples: int, replacement: bool = False) -> Array:
        return without_values((*weights.shape[:-1], samples), np.dtype(np.int64))
