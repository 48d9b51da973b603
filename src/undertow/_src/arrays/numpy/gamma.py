"""Special functions that NumPy lacks: the gamma family and the modified Bessel functions.

Same contract as numpy_special: one float array in, a fresh C-contiguous array of the same dtype out. All of it is
computed in float64 and rounded once. The family is closed under differentiation: lgamma' = digamma, digamma' =
polygamma(1), polygamma(n)' = polygamma(n + 1), i0' = i1, i1' = i0 − i1/x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.arrays.numpy.special import Array, fill_blocks, in_double, pick, polynomial, rational
from undertow._src.arrays.quiet import quiet

# lgamma(x) / ((x − 1)(x − 2)), 1 ≤ x ≤ 3: 1e-17.
_LGAMMA_P = (2.418381558743193, 47.20679803515667, 191.22050019134852, 245.68061327590556, 110.36080409010447,
             16.551964253537957, 0.6352870301691064, 0.0014109779025345435)  # fmt: skip
_LGAMMA_Q = (1.0, 34.46827806418281, 217.10661118778987, 422.07027726609806, 300.7123327709506, 80.8786389234811,
             7.455761089333642, 0.1665452149514796)  # fmt: skip

# lgamma(x) / (x − 2), 3 ≤ x ≤ 12: 6e-18.
_LGAMMA_MID_P = (-1.854840634532951, -8.403044100616876, -2.276853507837073, 7.5025592511735795, 4.277677214580016,
                 0.7124251122277521, 0.04134997888270784, 0.0007579595323710197, 2.839404572344819e-06)  # fmt: skip
_LGAMMA_MID_Q = (1.0, 11.070960567617922, 22.277696051978733, 14.442229484158162, 3.62544541459272, 0.36964985196329,
                 0.014590118193114652, 0.00018621271099295142, 4.501833793040752e-07)  # fmt: skip

# digamma(x) / (x − its positive root), 1 ≤ x ≤ 10: 1e-18.
_DIGAMMA_ROOT = 1.4616321449683622
_DIGAMMA_ROOT_REST = 9.549995429965698e-17
_DIGAMMA_P = (655442143.9486744, 2287069297.480931, 2495041014.828528, 1200813651.949829, 283482171.01845324,
              33263902.08662944, 1839305.8013073117, 41689.324721487705, 276.1588116845616,
              0.08896412013983217)  # fmt: skip
_DIGAMMA_Q = (1.0, 958015295.5261081, 2134430479.7834299, 1703607955.8373141, 636166581.1750923, 119824894.59996459,
              11343451.449519722, 504987.08699997823, 9033.17397921173, 44.044616582866205)  # fmt: skip

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
              -174611 / 330, 854513 / 138, -236364091 / 2730)  # B₂, B₄, …, B₂₄  # fmt: skip
_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI[:7], 1))
_DIGAMMA_SERIES = tuple(b / (2 * k) for k, b in enumerate(_BERNOULLI[:7], 1))


def _from_nearest_integer(x: Array) -> Array:
    """Return x minus the nearest integer, exactly: so that trigonometric functions of πx keep their digits."""
    return x - np.rint(x)


def _lgamma_positive(x: Array) -> Array:
    """log Γ(x) for x ≥ 0: fits up to 12, Stirling's series beyond."""

    def far() -> Array:
        inverse = 1 / x
        series = polynomial(inverse * inverse, _STIRLING) * inverse
        return (x - 0.5) * (np.log(x) - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + series

    def small() -> Array:  # Γ(x) = Γ(x + 1) / x maps (0, 1) into the range of the fit
        shifted = np.where(x < 1, x + 1, x)
        zeros = np.where(x < 1, x * (x - 1), (x - 1) * (x - 2))
        return zeros * rational(shifted, _LGAMMA_P, _LGAMMA_Q) - np.log(np.minimum(x, 1))

    def near() -> Array:
        return pick(x < 3, small, lambda: (x - 2) * rational(x, _LGAMMA_MID_P, _LGAMMA_MID_Q))

    value = np.where(x == np.inf, np.inf, pick(x < 12, near, far))
    return value + 0.0  # −0 at the zeros 1 and 2 becomes 0


def _lgamma(x: Array) -> Array:
    """log |Γ(x)|; inf at 0 and the negative integers; its derivative is digamma."""
    a = np.abs(x)

    def reflected() -> Array:  # Γ(−a) Γ(a) = −π / (a sin πa)
        value = np.log(math.pi / np.abs(a * np.sin(math.pi * _from_nearest_integer(a)))) - _lgamma_positive(a)
        return np.where(a == np.inf, np.inf, value)

    return pick(x < 0, reflected, lambda: _lgamma_positive(a))


def _digamma_positive(x: Array) -> Array:
    def far() -> Array:
        inverse = 1 / x
        square = inverse * inverse
        return np.log(x) - 0.5 * inverse - square * polynomial(square, _DIGAMMA_SERIES)

    def near() -> Array:  # ψ(x) = ψ(x + 1) − 1/x maps (0, 1) into the range of the fit
        low = x < 1
        shifted = np.where(low, x + 1, x)
        value = ((shifted - _DIGAMMA_ROOT) - _DIGAMMA_ROOT_REST) * rational(shifted, _DIGAMMA_P, _DIGAMMA_Q)
        return np.where(low, value - 1 / x, value)

    return pick(x < 10, near, far)


def _digamma(x: Array) -> Array:
    """ψ(x) = Γ'(x) / Γ(x); ∓inf at ±0, nan at the negative integers; its derivative is polygamma(1)."""

    def reflected() -> Array:
        r = _from_nearest_integer(x)
        return np.where(r == 0, np.nan, _digamma_positive(1 - x) - math.pi / np.tan(math.pi * r))

    value = pick(x < 0, reflected, lambda: _digamma_positive(x))
    return np.where(x == 0, np.copysign(np.inf, -x), value)


def _hurwitz_zeta(s: Any, q: Array) -> Array:
    """Σₖ (q + k)⁻ˢ for s > 1 by Euler–Maclaurin: a head summed term by term, then the integral and its corrections."""
    head, a = np.zeros_like(q), q
    deepest = float(np.fmin.reduce(q, axis=None, initial=0.0))
    for _ in range(10 + math.ceil(min(-deepest, 1e4))):
        head = head + a**-s
        a = a + 1
    tail = a ** (1 - s) / (s - 1) + 0.5 * a**-s
    factor = s * a ** (-s - 1)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        tail = tail + bernoulli / math.factorial(2 * k) * factor
        factor = factor * ((s + (2 * k - 1)) * (s + 2 * k)) / (a * a)
    return head + np.where(np.isinf(a), 0, tail)


def _zeta(s: Any, q: Array) -> Array:
    value = _hurwitz_zeta(s, q)
    pole = (q <= 0) & (q == np.floor(q))
    undefined = (s < 1) | ((q <= 0) & ~pole & (s != np.floor(s))) | np.isnan(s) | ~np.isfinite(q)
    return np.where(s == 1, np.inf, np.where(undefined, np.nan, np.where(pole, np.inf, value)))


@quiet
def zeta(s: Array, q: Array) -> Array:
    """Return the Hurwitz zeta function Σₖ (q + k)⁻ˢ, k ≥ 0; its derivative by q is −s ζ(s + 1, q)."""
    dtype = np.result_type(s, q)
    wide_s, wide_q = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    return np.asarray(_zeta(wide_s, wide_q), dtype, order="C")


def _trigamma(x: Array) -> Array:
    def reflected() -> Array:
        sine = np.sin(math.pi * _from_nearest_integer(x))
        return (math.pi / sine) ** 2 - _hurwitz_zeta(2.0, 1 - x)

    return pick(x < 0.5, reflected, lambda: _hurwitz_zeta(2.0, np.maximum(x, 0.5)))


def _polygamma_formula(n: int) -> Callable[[Array], Array]:
    if n == 1:
        return _trigamma
    scale = math.factorial(n) if n % 2 else -math.factorial(n)
    return lambda x: scale * _zeta(np.float64(n + 1), x)


@quiet
def polygamma(n: int, x: Array) -> Array:
    """Return the n-th derivative of digamma, (−1)ⁿ⁺¹ n! ζ(n + 1, x); its derivative is polygamma(n + 1)."""
    if n == 0:
        return digamma(x)
    formula = _polygamma_formula(n)

    def kernel(source: Array, target: Array) -> None:
        target[...] = formula(source.astype(np.float64, copy=False))

    return fill_blocks(kernel, x)


# --- modified Bessel functions ------------------------------------------------------------------------------------

_BESSEL_SWITCH = 20.0  # power series below, asymptotic series (smallest term e^(−2x)) above


def _power_series(order: int) -> tuple[float, ...]:
    """Iₙ(x) = (x/2)ⁿ Σ (x²/4)ᵏ / (k! (k + n)!)."""
    return tuple(1 / (math.factorial(k) * math.factorial(k + order)) for k in range(42))


def _asymptotic_series(order: int) -> tuple[float, ...]:
    """Iₙ(x) ≈ eˣ/√(2πx) Σ cₖ x⁻ᵏ with cₖ = cₖ₋₁ ((2k − 1)² − 4n²) / 8k."""
    terms = [1.0]
    for k in range(1, 26):
        terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k))
    return tuple(terms)


def _scaled_bessel(order: int, x: Array, scaled: bool) -> Array:
    """Iₙ(|x|) for order 0 or 1, times e^(−|x|) where `scaled`."""
    a = np.abs(x)

    def below() -> Array:
        value = polynomial(0.25 * a * a, _power_series(order))
        value = value * (0.5 * a) if order else value
        return value * np.exp(-a) if scaled else value

    def above() -> Array:
        value = polynomial(1 / a, _asymptotic_series(order)) / np.sqrt(2 * math.pi * a)
        return value if scaled else value * np.exp(0.5 * a) * np.exp(0.5 * a)  # eᵃ alone overflows too early

    return pick(a < _BESSEL_SWITCH, below, above)


def _i0(x: Array) -> Array:
    """Return the modified Bessel function I₀; its derivative is i1."""
    return _scaled_bessel(0, x, scaled=False)


def _i0e(x: Array) -> Array:
    """e^(−|x|) I₀(x); its derivative is i1e − sign(x) i0e."""
    return _scaled_bessel(0, x, scaled=True)


def _i1(x: Array) -> Array:
    """Return the modified Bessel function I₁; its derivative is i0 − i1/x, and ½ at 0."""
    value = _scaled_bessel(1, x, scaled=False)
    return np.where(x < 0, -value, value)


def _i1e(x: Array) -> Array:
    """e^(−|x|) I₁(x); its derivative is i0e − i1e (sign(x) + 1/x), and ½ at 0."""
    value = _scaled_bessel(1, x, scaled=True)
    return np.where(x < 0, -value, value)


lgamma = in_double(_lgamma)
digamma = in_double(_digamma)
i0 = in_double(_i0)
i0e = in_double(_i0e)
i1 = in_double(_i1)
i1e = in_double(_i1e)
