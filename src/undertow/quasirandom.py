"""`SobolEngine`: points that fill the unit cube more evenly than random ones (Sobol, 1967; Joe and Kuo, 2008).

Point n + 1 is point n XOR a direction number: that of the lowest zero bit of n (Antonov and Saleev, 1979). Scrambling
multiplies the directions by random triangular bit matrices and shifts all points by random bits (Owen, 1998). The table
of directions is SciPy's.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

from undertow._src.random.generators import Generator
from undertow._src.tensor.core import wrap
from undertow._src.types.dtypes import get_default_dtype
from undertow.random import randint

__all__ = ["SobolEngine"]


@cache
def _table() -> tuple[Any, Any]:
    """Return, for each dimension, a primitive polynomial and the first direction numbers."""
    try:
        import scipy  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(
            "torch.quasirandom.SobolEngine needs the direction numbers of SciPy, which is not installed"
        ) from error
    path = os.path.join(os.path.dirname(scipy.__file__), "stats", "_sobol_direction_numbers.npz")
    with np.load(path) as table:
        return table["poly"], table["vinit"]


class SobolEngine:
    """Draws the points of a Sobol sequence.

    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._directions = _directions(dimension, self.MAXBIT)
        self._shift = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()
        self._point = self._shift.copy()
        self._first = (self._shift / 2.0**self.MAXBIT).astype(get_default_dtype().numpy)  # as PyTorch stores it

    def _scramble(self) -> None:
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        bits = self.MAXBIT
        shifts = randint(2, (self.dimension, bits), generator=generator)._array
        self._shift = shifts @ (1 << np.arange(bits))
        turns = np.tril(randint(2, (self.dimension, bits, bits), generator=generator)._array)
        turns[:, np.arange(bits), np.arange(bits)] = 1
        places = np.arange(bits - 1, -1, -1)  # the highest bit first
        apart = (self._directions[:, :, None] >> places) & 1
        turned = np.einsum("dpk,djk->djp", turns, apart) & 1
        self._directions = (turned << places).sum(-1)

    def _advance(self, steps: int, start: int) -> Any:
        """Return the next points, as integers."""
        found = np.empty((steps, self.dimension), np.int64)
        for number in range(start, start + steps):
            lowest_zero = (~number & (number + 1)).bit_length() - 1
            self._point = self._point ^ self._directions[:, lowest_zero]
            found[number - start] = self._point
        return found

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """Return the next n points, as rows."""
        if self.num_generated == 0:
            points = np.concatenate([self._first[None], self._advance(n - 1, 0) / 2.0**self.MAXBIT])
        else:
            points = self._advance(n, self.num_generated - 1) / 2.0**self.MAXBIT
        self.num_generated += n
        kind = get_default_dtype() if dtype is None else dtype
        result = wrap(points.astype(kind.numpy))
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """Return the next 2**m points; raise if the total is then no power of two, which loses the balance."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of two: "
                f"{self.num_generated} points were drawn before, so 2**{m} more make {total}. "
                "draw() returns any number of points."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Restart the sequence."""
        self._point = self._shift.copy()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip n points."""
        start = self.num_generated
        self._advance(n - 1, 0) if start == 0 else self._advance(n, start - 1)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        facts = [f"dimension={self.dimension}"] + ["scramble=True"] * self.scramble
        facts += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(facts)})"


def _directions(dimension: int, bits: int) -> Any:
    """Return the direction numbers, one row per dimension and one column per bit."""
    polynomials, first = _table()
    rows = np.zeros((dimension, bits), np.int64)
    rows[0] = 1
    for place in range(1, dimension):
        polynomial = int(polynomials[place])
        degree = polynomial.bit_length() - 1
        row = [int(number) for number in first[place, :degree]]
        for bit in range(degree, bits):
            value = row[bit - degree] ^ (row[bit - degree] << degree)
            for step in range(1, degree):
                if polynomial >> (degree - step) & 1:
                    value ^= row[bit - step] << step
            row.append(value)
        rows[place] = row[:bits]
    return rows << np.arange(bits - 1, -1, -1)
