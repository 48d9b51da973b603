"""Bessel and Airy functions, and the classical orthogonal polynomials, on NumPy arrays in double precision.

Integrals over a period, and over the whole line of fast decaying functions, are summed by the trapezoidal rule, whose
error falls exponentially with the number of points. For large arguments Hankel's asymptotic series is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.arrays.quiet import quiet

Array = np.ndarray[Any, Any]

_FAR = 25.0  # from here on Hankel's series has 14 digits
_HALF_TURN = np.pi * (np.arange(160) + 0.5) / 160  # enough points for orders and arguments up to 80


def _first_kind(order: int, x: Array) -> Array:
    """Jₙ(x) = 1/π ∫ cos(nθ − x sin θ) dθ from 0 to π, for |x| below 80 − n."""
    return np.cos(order * _HALF_TURN - x[..., None] * np.sin(_HALF_TURN)).mean(-1)


def _hankel(order: int, x: Array) -> tuple[Array, Array, Array]:
    """Return the two sums and the phase of Hankel's series.

    J ≈ √(2/πx) (P cos χ − Q sin χ), Y ≈ √(2/πx) (P sin χ + Q cos χ).
    """
    sums, term = [np.zeros_like(x), np.zeros_like(x)], np.ones_like(x)
    for k in range(24):
        sums[k % 2] = sums[k % 2] + (term if k % 4 < 2 else -term)
        term = term * (4 * order * order - (2 * k + 1) ** 2) / (8 * (k + 1) * x)
    return sums[0], sums[1], x - (order / 2 + 0.25) * np.pi


def _where(mask: Array, yes: Callable[[Array], Array], no: Callable[[Array], Array], x: Array) -> Array:
    found = np.empty_like(x)
    found[mask], found[~mask] = yes(x[mask]), no(x[~mask])
    return found


@quiet
def bessel_j(order: int, x: Array) -> Array:
    """Jₙ for orders 0 and 1."""

    def far(x: Array) -> Array:
        p, q, phase = _hankel(order, np.abs(x))
        value = np.sqrt(2 / (np.pi * np.abs(x))) * (p * np.cos(phase) - q * np.sin(phase))
        return np.where((x < 0) & (order == 1), -value, value)

    return _where(np.abs(x) < _FAR, lambda x: _first_kind(order, x), far, x)


@quiet
def bessel_y(order: int, x: Array) -> Array:
    """Yₙ for orders 0 and 1: Neumann's series of Bessel functions, or Hankel's. −∞ at 0, nan below."""

    def near(x: Array) -> Array:
        log, total = np.log(x / 2) + np.euler_gamma, np.zeros_like(x)
        if order == 0:
            for k in range(1, 32):
                total += (-1) ** k / k * _first_kind(2 * k, x)
            return 2 / np.pi * (log * _first_kind(0, x) - 2 * total)
        for k in range(1, 32):  # the derivative of the other, negated
            total += (-1) ** k / k * (_first_kind(2 * k - 1, x) - _first_kind(2 * k + 1, x))
        return 2 / np.pi * (log * _first_kind(1, x) - _first_kind(0, x) / x + total)

    def far(x: Array) -> Array:
        p, q, phase = _hankel(order, x)
        return np.sqrt(2 / (np.pi * x)) * (p * np.sin(phase) + q * np.cos(phase))

    value = _where(x < _FAR, near, far, x)
    return np.where(x < 0, np.nan, np.where(x == 0, -np.inf, value))


@quiet
def bessel_k(order: int, x: Array, scaled: bool) -> Array:
    """Kₙ(x) = ∫ e^(−x cosh t) cosh nt dt from 0 on, times eˣ where `scaled`. ∞ at 0, nan below."""
    value = _k_integral(order, x) * (1.0 if scaled else np.exp(-x))
    return np.where(x < 0, np.nan, np.where(x == 0, np.inf, np.where(np.isposinf(x), 0.0, value)))


def _k_integral(order: float, x: Array) -> Array:
    step = 0.125
    t = np.arange(0, 760) * step
    falls = np.exp(-2 * x[..., None] * np.sinh(t / 2) ** 2)
    terms = np.where(falls == 0, 0.0, falls * np.cosh(order * t))
    return step * (terms.sum(-1) - 0.5 * terms[..., 0])


@quiet
def airy_ai(x: Array) -> Array:
    """Ai: its power series near 0, K of order 1/3 above, the asymptotic series far below."""

    def near(x: Array) -> Array:
        wide: Array = x.astype(np.longdouble)
        first: Array = np.ones_like(wide)
        second: Array = wide.copy()
        f, g, cube = first.copy(), second.copy(), wide**3
        for k in range(1, 60):
            first = first * cube / ((3 * k - 1) * (3 * k))
            second = second * cube / ((3 * k) * (3 * k + 1))
            f, g = f + first, g + second
        at_zero, slope = 3 ** (-2 / 3) / math.gamma(2 / 3), 3 ** (-1 / 3) / math.gamma(1 / 3)
        return (at_zero * f - slope * g).astype(np.float64)

    def above(x: Array) -> Array:
        zeta = 2 / 3 * x**1.5
        return np.sqrt(x / 3) / np.pi * _k_integral(1 / 3, zeta) * np.exp(-zeta)

    def below(x: Array) -> Array:
        zeta = 2 / 3 * np.abs(x) ** 1.5
        sums, term = [np.zeros_like(x), np.zeros_like(x)], np.ones_like(x)
        for k in range(16):
            sums[k % 2] = sums[k % 2] + (term if k % 4 < 2 else -term)
            term = term * (6 * k + 5) * (6 * k + 3) * (6 * k + 1) / (216 * (k + 1) * (2 * k + 1) * zeta)
        phase = zeta + np.pi / 4
        return (sums[0] * np.sin(phase) - sums[1] * np.cos(phase)) / (np.sqrt(np.pi) * np.abs(x) ** 0.25)

    def away(x: Array) -> Array:
        return _where(x > 0, above, below, x)

    return _where(np.where(x > 0, x < 1, x > -8), near, away, x)


# --- polynomials: the second one, and the recurrence for the next

Step = Callable[[int, Array, Array, Array], Array]
POLYNOMIALS: dict[str, tuple[Callable[[Array], Array], Step]] = {
    "chebyshev_polynomial_t": (lambda x: x, lambda k, x, p, q: 2 * x * p - q),
    "chebyshev_polynomial_u": (lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - q),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, lambda k, x, p, q: 2 * x * p - q),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, lambda k, x, p, q: 2 * x * p - q),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, p, q: 2 * (x * p - k * q)),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, p, q: x * p - k * q),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
}


@quiet
def polynomial_of_degree(name: str, x: Array, n: Array) -> Array:
    """Return an orthogonal polynomial of the degree given for each element; 0 for negative degrees."""
    if name.startswith("shifted_"):
        name, x = name.removeprefix("shifted_"), 2 * x - 1
    second, step = POLYNOMIALS[name]
    x, n = np.broadcast_arrays(x, np.trunc(n))
    before, last = np.ones_like(x), second(x)
    found = np.where(n == 0, before, np.where(n == 1, last, 0.0))
    for k in range(1, int(n.max(initial=0))):
        before, last = last, step(k, x, last, before)
        found = np.where(n == k + 1, last, found)
    return found
