"""Derivatives of random draws by a parameter of their distribution, at a fixed quantile.

With F the distribution function and p the density, a draw x at a fixed F(x; a) has dx/da = -(dF/da) / p. For the gamma
and beta distributions F is a series of positive terms; each is differentiated and divided by p, which leaves products
of simple ratios and digammas with a recurrence from term to term.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.arrays.numpy.gamma import digamma

Array = np.ndarray[Any, Any]

_LARGE = 120.0  # a gamma shape from which its expansion around the normal distribution is used
_TERMS = 20000


def standard_gamma_grad(alpha: Any, x: Any) -> Any:
    """dx/dalpha for x drawn from the gamma distribution of shape alpha and rate 1."""
    a, x64 = np.broadcast_arrays(np.asarray(alpha, np.float64), np.asarray(x, np.float64))
    result = np.zeros(a.shape)
    regular = (x64 > 0) & (a > 0) & np.isfinite(x64)
    small = regular & (a < _LARGE)
    if small.any():
        result[small] = _gamma_series(a[small], x64[small])
    large = regular & ~small
    if large.any():
        result[large] = _gamma_expansion(a[large], x64[large])
    result[~regular & ~(x64 == 0)] = np.nan
    return result.astype(np.asarray(x).dtype)


def _gamma_series(a: Array, x: Array) -> Array:
    """F = Σ x^(a+n) e^(-x) / Γ(a+n+1)."""
    log_x, psi = np.log(x), digamma(a + 1)
    ratio = x / a
    total = ratio * (log_x - psi)
    for n in range(1, _TERMS):
        ratio = ratio * x / (a + n)
        psi = psi + 1 / (a + n)
        term = ratio * (log_x - psi)
        total = total + term
        if n % 8 == 0 and bool(np.all((np.abs(term) <= 1e-17 * np.abs(total)) & (a + n > x))):
            break
    return -total


def _gamma_expansion(a: Array, x: Array) -> Array:
    """Return the derivative by x = a + z √a + …, z normal (Cornish and Fisher): solved for z, then differentiated."""
    root = np.sqrt(a)

    def quantile(z: Array) -> Array:
        cubic = (z**3 - 7 * z) / (36 * root) - (3 * z**4 + 7 * z**2 - 16) / (810 * a)
        return a + z * root + (z**2 - 1) / 3 + cubic + (9 * z**5 + 256 * z**3 - 433 * z) / (38880 * a * root)

    z = 3 * root * (np.cbrt(x / a) - 1 + 1 / (9 * a))  # Wilson and Hilferty's guess
    for _ in range(4):
        slope = root + 2 * z / 3 + (3 * z**2 - 7) / (36 * root)
        z = z - (quantile(z) - x) / slope
    return (
        1
        + z / (2 * root)
        - (z**3 - 7 * z) / (72 * a * root)
        + (3 * z**4 + 7 * z**2 - 16) / (810 * a**2)
        - (9 * z**5 + 256 * z**3 - 433 * z) / (25920 * a**2 * root)
    )


def dirichlet_grad(x: Any, alpha: Any, total: Any) -> Any:
    """Return dx/dalpha / (1 - x) for each component x of a Dirichlet draw, distributed as Beta(alpha, total - alpha)."""
    arrays = np.broadcast_arrays(*[np.asarray(each, np.float64) for each in (x, alpha, total)])
    share, a = arrays[0], arrays[1]
    b = arrays[2] - a
    result = np.zeros(share.shape)
    left = (share > 0) & (share <= 0.5)
    right = (share > 0.5) & (share < 1)
    if left.any():
        result[left] = _beta_from_below(share[left], a[left], b[left])
    if right.any():
        result[right] = _beta_from_above(share[right], a[right], b[right])
    return result.astype(np.asarray(x).dtype)


def _beta_from_below(x: Array, a: Array, b: Array) -> Array:
    """F = Σ x^(a+n) (1-x)^b Γ(a+b+n) / (Γ(a+n+1) Γ(b)); the density is x^(a-1) (1-x)^(b-1) Γ(a+b) / (Γ(a) Γ(b))."""
    slope = np.log(x) + digamma(a + b) - digamma(a + 1)
    ratio = x / a  # of the term to the density, and divided by 1 - x
    total = ratio * slope
    for n in range(1, _TERMS):
        ratio = ratio * x * (a + b + n - 1) / (a + n)
        slope = slope + 1 / (a + b + n - 1) - 1 / (a + n)
        term = ratio * slope
        total = total + term
        if n % 8 == 0 and bool(np.all((np.abs(ratio) <= 1e-17 * np.abs(total)) & (x * (a + b + n) < a + n + 1))):
            break
    return -total


def _beta_from_above(x: Array, a: Array, b: Array) -> Array:
    """Return the same from the upper end: 1 - F = Σ y^(b+n) x^a Γ(a+b+n) / (Γ(b+n+1) Γ(a)) with y = 1 - x."""
    y = 1 - x
    slope = np.log(x) + digamma(a + b) - digamma(a)
    ratio = x / b
    total = ratio * slope
    for n in range(1, _TERMS):
        ratio = ratio * y * (a + b + n - 1) / (b + n)
        slope = slope + 1 / (a + b + n - 1)
        term = ratio * slope
        total = total + term
        if n % 8 == 0 and bool(np.all((np.abs(ratio) <= 1e-17 * np.abs(total)) & (y * (a + b + n) < b + n + 1))):
            break
    return total
