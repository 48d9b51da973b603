"""The regularised incomplete gamma functions on NumPy: P(a, x), the part of Γ(a) below x, and Q = 1 − P.

A power series below the mean, a continued fraction above it, both computed in float64 and rounded once. They converge
slowly where a is large; there the tail of the density is integrated numerically.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from undertow._src.arrays.numpy.gamma import lgamma
from undertow._src.arrays.numpy.special import Array, polynomial
from undertow._src.arrays.quiet import quiet

_LARGE = 100.0  # from here on the tail is integrated
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
_TINY = 1e-300


def _series(a: Array, x: Array) -> Array:
    """P(a, x) for x up to a + 1: xᵃ e⁻ˣ / Γ(a + 1) · Σ xᵏ / ((a + 1) … (a + k))."""
    term = np.ones_like(x)
    total = term.copy()
    for k in range(1, 1000):
        term = term * (x / (a + k))
        total = total + term
        if not (term > total * 1e-17).any():
            break
    return np.where(x == 0, 0, np.exp(a * np.log(x) - x - lgamma(a + 1)) * total)


def _fraction(a: Array, x: Array) -> Array:
    """Q(a, x) for x from a + 1 on: xᵃ e⁻ˣ / Γ(a) over a continued fraction, evaluated from the front (Lentz)."""
    b = x + 1 - a
    c = np.full_like(x, 1 / _TINY)
    d = 1 / b
    h = d
    for k in range(1, 1000):
        step = -k * (k - a)
        b = b + 2
        d = 1 / _nonzero(step * d + b)
        c = _nonzero(b + step / c)
        h = h * (d * c)
        if not (np.abs(d * c - 1) > 1e-16).any():
            break
    return np.exp(a * np.log(x) - x - lgamma(a)) * h


def _nonzero(x: Array) -> Array:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _upper_series(a: Array, x: Array) -> Array:
    """Q(a, x) for small x, where 1 − P would lose its digits: 1 − xᵃ/Γ(a + 1), less the rest of the series."""
    term = np.ones_like(x)
    rest = np.zeros_like(x)
    for k in range(1, 100):
        term = term * (-x / k)
        rest = rest + term / (a + k)
        if not (np.abs(term) > 1e-18).any():
            break
    log_power = a * np.log(x) - lgamma(a + 1)
    return -np.expm1(log_power) - np.exp(log_power) * a * rest


@cache
def _nodes() -> tuple[Any, Any]:
    """Return nodes in [0, 1] and their weights (Gauss–Legendre)."""
    places, weights = np.polynomial.legendre.leggauss(64)
    return (places + 1) / 2, weights / 2


def _tail(a: Array, x: Array) -> Array:
    """Return the tail of Γ(a) beyond x, seen from its mean: above x if x is above a, else below x."""
    away = (x - a) / a
    log_height = -a * (away - np.log1p(away)) - polynomial(1 / (a * a), _STIRLING) / a
    height = np.sqrt(a / (2 * math.pi)) / x * np.exp(log_height)
    # The density falls by a factor of e⁻⁴⁰ within this distance.
    slope, curve = np.abs(1 - (a - 1) / x), (a - 1) / (x * x)
    reach = 1.5 * 80 / (slope + np.sqrt(slope * slope + 80 * curve))
    reach = np.where(x > a, reach, -np.minimum(reach, x))
    total = np.zeros_like(x)
    for place, weight in zip(*_nodes(), strict=True):
        step = reach * place
        total = total + weight * np.exp((a - 1) * np.log1p(step / x) - step)
    return height * total * np.abs(reach)


def _shares(a: Array, x: Array, upper: bool) -> Array:
    """Return P(a, x), or Q(a, x), elementwise over vectors."""
    out = np.full(x.shape, np.nan)
    fine = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    out[((a == 0) & (x > 0)) | ((a > 0) & np.isfinite(a) & (x == np.inf))] = 0.0 if upper else 1.0
    out[((a > 0) & (x == 0)) | ((a == np.inf) & (x >= 0) & np.isfinite(x))] = 1.0 if upper else 0.0
    above, small = x > a + 1, x <= 1.1
    for inside, method, gives_upper in (
        (fine & (a > _LARGE) & (x > a), _tail, True),
        (fine & (a > _LARGE) & (x <= a), _tail, False),
        (fine & (a <= _LARGE) & above, _fraction, True),
        (fine & (a <= _LARGE) & ~above & (small if upper else False), _upper_series, True),
        (fine & (a <= _LARGE) & ~above & (~small if upper else True), _series, False),
    ):
        if inside.any():
            share = method(a[inside], x[inside])
            out[inside] = share if gives_upper == upper else 1 - share
    return out


def _elementwise(a: Array, x: Array, upper: bool) -> Array:
    dtype = np.result_type(a, x)
    wide_a, wide_x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    return _shares(wide_a.ravel(), wide_x.ravel(), upper).reshape(wide_a.shape).astype(dtype)


@quiet
def igamma(a: Array, x: Array) -> Array:
    """P(a, x), the lower share."""
    return _elementwise(a, x, False)


@quiet
def igammac(a: Array, x: Array) -> Array:
    """Q(a, x), the upper share."""
    return _elementwise(a, x, True)
