"""Special functions that NumPy lacks: the logistic family and the error-function family.

Every function takes one float array of any shape and returns a fresh array of the same dtype and memory order. Large
arrays are processed in blocks that stay in the cache, so that a formula of twenty passes costs arithmetic and not
memory traffic. The rational approximations are our own minimax fits, made in 50-digit arithmetic; each states its
interval and error. Overflow to inf and nan from nan are valid results here, so every function silences NumPy's
warnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._src.arrays.quiet import quiet

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK = 32768  # elements: 128 KiB of float32, which leaves room for scratch in a 1 MiB L2 cache


def fill_blocks(kernel: Callable[[Array, Array], None], x: Array) -> Array:
    """Run `kernel(source, target)` over cache-sized pieces of x; half-precision input is computed in float32."""
    if x.dtype.itemsize < 4:
        return fill_blocks(kernel, x.astype(np.float32)).astype(x.dtype)
    out = np.empty_like(x, subok=False)
    if x.size <= BLOCK:
        kernel(x, out)
        return out
    source, target = x.ravel("K"), out.ravel("K")
    for start in range(0, x.size, BLOCK):
        kernel(source[start : start + BLOCK], target[start : start + BLOCK])
    return out


def fill_blocks_of_two(kernel: Callable[[Array, Array, Array], None], x: Array, y: Array) -> Array:
    """Run `fill_blocks` for a kernel(x, y, target) of two arrays of one shape."""
    if x.dtype.itemsize < 4:
        return fill_blocks_of_two(kernel, x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    out = np.empty(x.shape, x.dtype)
    if x.size <= BLOCK:
        kernel(x, y, out)
        return out
    one, two, target = x.reshape(-1), y.reshape(-1), out.reshape(-1)
    for start in range(0, x.size, BLOCK):
        block = slice(start, start + BLOCK)
        kernel(one[block], two[block], target[block])
    return out


def in_double(formula: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Make a float64 formula serve every float dtype: it sees float64 blocks, and results are rounded once."""

    def kernel(source: Array, target: Array) -> None:
        target[...] = formula(source.astype(np.float64, copy=False))

    @quiet
    def function(x: Array) -> Array:
        return fill_blocks(kernel, x)

    function.__name__ = function.__qualname__ = formula.__name__.removeprefix("_")
    function.__doc__ = formula.__doc__
    return function


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Σ cₖ xᵏ by Horner's rule, in one fresh buffer."""
    total = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        total += c
        total *= x
    total += coefficients[0]
    return total


def rational(x: Array, numerator: Sequence[float], denominator: Sequence[float]) -> Array:
    """P(x) / Q(x), coefficients from the constant upwards."""
    return np.divide(polynomial(x, numerator), polynomial(x, denominator))


def pick(mask: Array, yes: Callable[[], Array], no: Callable[[], Array]) -> Array:
    """Compute np.where, evaluating only the sides that some element needs."""
    if mask.all():
        return yes()
    if not mask.any():
        return no()
    return np.where(mask, yes(), no())


# --- the logistic family ------------------------------------------------------------------------------------------


def _sigmoid_into(source: Array, target: Array) -> None:
    np.negative(source, out=target)
    np.exp(target, out=target)
    np.add(target, 1, out=target)
    np.reciprocal(target, out=target)


@quiet
def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + e⁻ˣ); e⁻ˣ may overflow to inf, which divides to the right result, 0."""
    return fill_blocks(_sigmoid_into, x)


def _silu_into(source: Array, target: Array) -> None:
    np.negative(source, out=target)
    np.exp(target, out=target)
    np.add(target, 1, out=target)
    np.divide(source, target, out=target)


@quiet
def silu(x: Array) -> Array:
    """x · sigmoid(x), as x / (1 + e⁻ˣ)."""
    return fill_blocks(_silu_into, x)


def _silu_grad_into(g: Array, x: Array, target: Array) -> None:
    _sigmoid_into(x, target)
    slope = (1 - target) * x
    slope += 1
    target *= slope
    target *= g


@quiet
def silu_grad(g: Array, x: Array) -> Array:
    """g · s (1 + x (1 − s)) with s = sigmoid(x)."""
    return fill_blocks_of_two(_silu_grad_into, g, x)


def _log1p_exp_minus_abs_into(source: Array, target: Array) -> None:
    """log(1 + e⁻|x|), the smooth part that softplus and log_sigmoid share; in (0, log 2]."""
    np.abs(source, out=target)
    np.negative(target, out=target)
    np.exp(target, out=target)
    np.log1p(target, out=target)


def _softplus_into(source: Array, target: Array) -> None:
    _log1p_exp_minus_abs_into(source, target)
    target += np.maximum(source, 0)


@quiet
def softplus(x: Array) -> Array:
    """log(1 + eˣ) = max(x, 0) + log(1 + e⁻|x|); its derivative is sigmoid(x)."""
    return fill_blocks(_softplus_into, x)


def _log_sigmoid_into(source: Array, target: Array) -> None:
    _log1p_exp_minus_abs_into(source, target)
    np.subtract(np.minimum(source, 0), target, out=target)


@quiet
def log_sigmoid(x: Array) -> Array:
    """log sigmoid(x) = min(x, 0) − log(1 + e⁻|x|); its derivative is sigmoid(−x)."""
    return fill_blocks(_log_sigmoid_into, x)


@quiet
def logit(x: Array) -> Array:
    """log(x / (1 − x)), the inverse of sigmoid."""
    return fill_blocks(lambda source, target: np.log(source / (1 - source), out=target), x)


# --- the error function -------------------------------------------------------------------------------------------

# atanh(erf x) / x − 1 in t = x², 0 ≤ t ≤ 16, weighted by what tanh makes of its error: 3e-9.
_ATANH_ERF_P = (0.12837917167402368, 0.12291237602823735, 0.018954268154131416, 0.001852597462216503)
_ATANH_ERF_Q = (1.0, 0.1568780412831564, 0.023682990433265026, 0.0003247115449635541)

# erf(x) / x in t = x², 0 ≤ t ≤ 1: 2e-18.
_ERF_P = (1.1283791670955126, 0.1421492844328324, 0.045303909426456034, 0.0018272944494853913, 0.00019495614455569262)
_ERF_Q = (1.0, 0.4593098566315516, 0.09325282990585979, 0.01058221232340552, 0.000681215840127273,
          2.0297423507587586e-05)  # fmt: skip

# e^(x²) erfc(x) in x, 0.5 ≤ x ≤ 28: 3e-18.
_ERFCX_P = (0.9999999999641414, 2.273944941454766, 2.5513800007832237, 1.8201019893595614, 0.902367556671551,
            0.32156989531557617, 0.08249734459412299, 0.014777743041537138, 0.0016968464857373435,
            9.754413919532866e-05)  # fmt: skip
_ERFCX_Q = (1.0, 3.4023241079902857, 5.39049164806091, 5.252549116493147, 3.4981507302887165, 1.6710124053194528,
            0.5829777878616257, 0.14772652712459966, 0.026279313805033448, 0.0030075820880296794,
            0.00017289248515009274)  # fmt: skip

_TINY = 32  # elements up to which Python's own scalar functions beat twenty NumPy calls
_ERFCX_SERIES = (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875)
_ERF_SATURATES = 28.0  # erfc underflows beyond this, and the fit of erfcx ends here


def _erf_float32_into(source: Array, target: Array) -> None:
    """erf x = tanh(x + x R(x²)): one rational and NumPy's vectorised tanh, accurate near 0 and at the ends alike."""
    square = np.square(source)
    np.clip(square, 0, 16, out=square)  # vectorised, as np.minimum with a number is not
    p, q = square * np.float32(_ATANH_ERF_P[3]), square * np.float32(_ATANH_ERF_Q[3])
    for total, coefficients in ((p, _ATANH_ERF_P), (q, _ATANH_ERF_Q)):
        for c in coefficients[2:0:-1]:
            total += np.float32(c)
            total *= square
        total += np.float32(coefficients[0])
    p /= q
    p *= source
    p += source
    np.tanh(p, out=target)


def _erf_near_zero(x: Array) -> Array:
    return x * rational(x * x, _ERF_P, _ERF_Q)


def _exp_minus_square(a: Array) -> Array:
    """e^(−a²), finite a, without the error that rounding a² would make: the leading 24 bits of a square exactly."""
    head = a.astype(np.float32).astype(np.float64)
    return np.exp(-head * head) * np.exp((head - a) * (head + a))


def _erfcx_fit(a: Array) -> Array:
    return rational(np.minimum(a, _ERF_SATURATES), _ERFCX_P, _ERFCX_Q)


def _erf_float64(x: Array) -> Array:
    a = np.abs(x)

    def outer() -> Array:
        return np.copysign(1 - np.exp(-a * a) * _erfcx_fit(a), x)

    return pick(a < 1, lambda: _erf_near_zero(x), outer)


def _erf_into(source: Array, target: Array) -> None:
    if source.size <= _TINY:
        target.flat[:] = list(map(math.erf, source.reshape(-1).tolist()))
    elif source.dtype == np.float32:
        _erf_float32_into(source, target)
    else:
        target[...] = _erf_float64(source)


@quiet
def erf(x: Array) -> Array:
    """2/√π ∫₀ˣ e^(−t²) dt; its derivative is 2/√π e^(−x²)."""
    return fill_blocks(_erf_into, x)


def _gelu_cdf_into(source: Array, target: Array) -> None:
    """½ (1 + erf(x/√2)), Φ(x) to absolute accuracy as GELU takes it; ndtr is the one for far tails."""
    _erf_into(np.asarray(source * math.sqrt(0.5)), target)
    np.add(target, 1, out=target)
    np.multiply(target, 0.5, out=target)


def _gelu_into(source: Array, target: Array) -> None:
    _gelu_cdf_into(source, target)
    target *= source


@quiet
def gelu(x: Array) -> Array:
    """x Φ(x)."""
    return fill_blocks(_gelu_into, x)


def _gelu_grad_into(g: Array, x: Array, target: Array) -> None:
    _gelu_cdf_into(x, target)
    density = np.asarray(x * x)
    density *= -0.5
    np.exp(density, out=density)
    density *= x
    density *= 1 / math.sqrt(2 * math.pi)
    target += density
    target *= g


@quiet
def gelu_grad(g: Array, x: Array) -> Array:
    """g · (Φ(x) + x Φ'(x))."""
    return fill_blocks_of_two(_gelu_grad_into, g, x)


_CUBIC, _ROOT_2_OVER_PI = 0.044715, math.sqrt(2 / math.pi)


def _gelu_tanh_into(source: Array, target: Array) -> None:
    np.multiply(source, source, out=target)
    target *= _CUBIC * _ROOT_2_OVER_PI
    target += _ROOT_2_OVER_PI
    target *= source
    np.tanh(target, out=target)
    target += 1
    target *= source
    target *= 0.5


@quiet
def gelu_tanh(x: Array) -> Array:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    return fill_blocks(_gelu_tanh_into, x)


def _gelu_tanh_grad_into(g: Array, x: Array, target: Array) -> None:
    square = np.asarray(x * x)
    t = np.asarray(square * (_CUBIC * _ROOT_2_OVER_PI))
    t += _ROOT_2_OVER_PI
    t *= x
    np.tanh(t, out=t)
    inner = square  # x times the slope of what tanh is taken of
    inner *= 3 * _CUBIC * _ROOT_2_OVER_PI
    inner += _ROOT_2_OVER_PI
    inner *= x
    np.multiply(t, t, out=target)
    np.subtract(1, target, out=target)
    target *= inner
    target += t
    target += 1
    target *= g
    target *= 0.5


@quiet
def gelu_tanh_grad(g: Array, x: Array) -> Array:
    """g · ½ (1 + t + (1 − t²) x a'), with t = tanh(a) and a = √(2/π) (x + 0.044715 x³)."""
    return fill_blocks_of_two(_gelu_tanh_grad_into, g, x)


def _erfc(x: Array) -> Array:
    """1 − erf(x), without cancellation for large x."""
    a = np.minimum(np.abs(x), _ERF_SATURATES)

    def outer() -> Array:
        tail = _exp_minus_square(a) * rational(a, _ERFCX_P, _ERFCX_Q)
        return np.where(x < 0, 2 - tail, tail)

    return pick(a < 0.5, lambda: 1 - _erf_near_zero(x), outer)


def _erfcx(x: Array) -> Array:
    """e^(x²) erfc(x), which stays representable where erfc underflows; its derivative is 2x·erfcx(x) − 2/√π."""

    def far() -> Array:  # the asymptotic series, Σ (−1)ᵏ (2k−1)!! (2x²)⁻ᵏ / (x√π)
        inverse = 1 / x
        return polynomial(inverse * inverse, _ERFCX_SERIES) * inverse * (1 / math.sqrt(math.pi))

    def near() -> Array:
        grown = np.maximum(x, -_ERF_SATURATES)
        return pick(x >= 0.5, lambda: _erfcx_fit(x), lambda: _erfc(x) / _exp_minus_square(grown))

    return pick(x > _ERF_SATURATES, far, near)


def _ndtr(x: Array) -> Array:
    """Return the normal distribution function, ½ erfc(−x/√2), relatively accurate in the lower tail."""
    return 0.5 * _erfc(x * -math.sqrt(0.5))


def _log_ndtr(x: Array) -> Array:
    """log ndtr(x); its derivative is √(2/π) / erfcx(−x/√2)."""
    z = x * -math.sqrt(0.5)
    return pick(x < -1, lambda: np.log(0.5 * _erfcx(z)) - 0.5 * x * x, lambda: np.log1p(-0.5 * _erfc(-z)))


# --- the inverse error function -----------------------------------------------------------------------------------

# erfinv(y) / y in w = −log(1 − y²), 0 ≤ w ≤ 6: 1e-16.
_ERFINV_P = (0.886226925452758, 0.36604677634049193, 0.09986094520983008, 0.019823141113272418, 0.00291669664189677,
             0.0003254757510657534, 2.6939285594851988e-05, 1.5150906923293152e-06, 4.5156109453760965e-08)  # fmt: skip
_ERFINV_Q = (1.0, 0.1512401688059445, 0.060054389627316455, 0.007309729598671793, 0.00113780705010913,
             0.00010161434306952132, 6.670339304020921e-06, 3.3243725035835895e-07, 2.6450717943688877e-09)  # fmt: skip

# erfcinv(q) in s = √(−log q), 2.5 ≤ s ≤ 6.2: 2e-21, and 6 ≤ s ≤ 28: 5e-19.
_ERFCINV_P = (-0.0026338898049268387, 0.020799100627575375, 0.804516224482084, 2.0336172416782565, 2.6491756164466302,
              2.9672488172320763, 1.0113334562496687, 0.10326610578770341, 0.0026437670588268574)  # fmt: skip
_ERFCINV_Q = (1.0, 2.0573714594190973, 3.924931336560925, 3.8081291148992613, 3.1471138746160165, 1.0181321299840407,
              0.10328357748919789, 0.002643654673065228, 5.493667565613808e-10)  # fmt: skip
_ERFCINV_FAR_P = (-0.0019313099836384998, 0.11229677605198785, 0.4546255875843246, 2.2240937673003427,
                  1.4564073279067955, 0.3027282859050974, 0.023229597380471433, 0.0006391565337368488,
                  4.884776645618804e-06)  # fmt: skip
_ERFCINV_FAR_Q = (1.0, 1.7227189932572426, 2.6295358191500107, 1.498688471836125, 0.3042404323732772,
                  0.023245027699009945, 0.0006391667654520692, 4.884754953432234e-06,
                  3.5960058170233824e-14)  # fmt: skip


def _inverse_erf(y: Array, q: Array) -> Array:
    """Return the x ≥ 0 with erf(x) = y and erfc(x) = q = 1 − y; both are given so that neither end loses digits."""
    w = pick(y < 0.5, lambda: -np.log1p(-y * y), lambda: -np.log(q * (1 + y)))

    def tail() -> Array:
        s = np.sqrt(-np.log(q))
        near, far = (_ERFCINV_P, _ERFCINV_Q), (_ERFCINV_FAR_P, _ERFCINV_FAR_Q)
        return pick(s < 6.1, lambda: rational(s, *near), lambda: np.where(q == 0, np.inf, rational(s, *far)))

    return pick(w < 6, lambda: y * rational(w, _ERFINV_P, _ERFINV_Q), tail)


def _erfinv(x: Array) -> Array:
    """Return the inverse of erf: ±inf at ±1, nan outside; its derivative is √π/2 e^(erfinv(x)²)."""
    a = np.abs(x)
    return np.copysign(_inverse_erf(a, 1 - a), x)


def _ndtri(p: Array) -> Array:
    """Return the inverse of ndtr: −√2 erfcinv(2p); its derivative is √(2π) e^(ndtri(p)²/2)."""
    q = 2 * np.minimum(p, 1 - p)
    return np.copysign(math.sqrt(2) * _inverse_erf(1 - q, q), p - 0.5)


erfc = in_double(_erfc)
erfcx = in_double(_erfcx)
ndtr = in_double(_ndtr)
log_ndtr = in_double(_log_ndtr)
erfinv = in_double(_erfinv)
ndtri = in_double(_ndtri)
