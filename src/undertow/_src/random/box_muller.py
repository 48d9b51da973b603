"""Box-Muller on blocks of sixteen uniforms, the way PyTorch fills a tensor of sixteen or more normals.

A block's first eight values give the radii and its last eight the angles; value i and value i + 8 are a pair.
Doubles use the C library. Floats use the single-precision logarithm and sine of the Cephes library, evaluated with
fused multiply-adds in a fixed order, which is reproduced here step by step so that every bit agrees.
"""

from __future__ import annotations

import math

import numpy as np

from undertow._src.random.numerics import Array, exact_log, exact_sin_cos

BLOCK = 16
_HALF = BLOCK // 2
_BLOCKS_PER_PASS = 4096  # keeps the temporaries of one pass inside the processor's cache


def _singles(*values: float) -> Array:
    """Float32 constants, held as doubles."""
    return np.array(values, np.float32).astype(np.float64)


_LOG_POLYNOMIAL = _singles(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_SIN_POLYNOMIAL = _singles(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS_POLYNOMIAL = _singles(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
# log(2) and pi/4 cut into parts whose products with a small integer lose nothing.
_LOG2_LOW, _LOG2_HIGH = np.float32(-2.12194440e-4), 0.693359375
_QUARTER_PI = _singles(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
_SQRT_HALF = np.float32(0.707106781186547524)
_FOUR_OVER_PI = np.float32(1.27323954473516)
_TWO_PI = np.float32(2.0 * math.pi)
_ONE, _HALF_ONE, _MINUS_TWO = np.float32(1.0), np.float32(0.5), np.float32(-2.0)


def standard_normals(uniforms: Array) -> Array:
    """Turn uniforms (a whole number of blocks, float32 or float64) into as many standard normals."""
    blocks = uniforms.reshape(-1, BLOCK)
    if uniforms.dtype == np.float64:
        radius = np.sqrt(-2.0 * exact_log(1.0 - blocks[:, :_HALF]))
        sine, cosine = exact_sin_cos(2.0 * math.pi * blocks[:, _HALF:])
        return np.concatenate([radius * cosine, radius * sine], axis=1).reshape(-1)
    normals = np.empty_like(blocks)
    for start in range(0, len(blocks), _BLOCKS_PER_PASS):
        part = blocks[start : start + _BLOCKS_PER_PASS]
        radius = np.sqrt(_MINUS_TWO * _log32(_ONE - part[:, :_HALF]))
        sine, cosine = _sin_cos32(_TWO_PI * part[:, _HALF:])
        done = normals[start : start + _BLOCKS_PER_PASS]
        np.multiply(radius, cosine, out=done[:, :_HALF])
        np.multiply(radius, sine, out=done[:, _HALF:])
    return normals.reshape(-1)


class _Fused:
    """Multiply-adds of float32 arrays of one shape, rounded once each, in one reused double buffer."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._buffer = np.empty(shape, np.float64)

    def into(self, a: Array, b: Array | float, c: Array | float) -> None:
        """Replace ``a`` by ``a * b + c``; ``b`` and ``c`` are doubles that hold float32 values."""
        buffer = self._buffer
        buffer[...] = a
        buffer *= b
        buffer += c
        a[...] = buffer

    def polynomial(self, coefficients: Array, variable: Array) -> Array:
        """Horner's scheme, highest coefficient first."""
        value = np.full(variable.shape, coefficients[0], np.float32)
        for coefficient in coefficients[1:]:
            self.into(value, variable, coefficient)
        return value


def _log32(x: Array) -> Array:
    """Cephes' single-precision logarithm of values in (0, 1]."""
    bits = x.view(np.int32)
    exponent = (bits >> 23) - 126
    mantissa = ((bits & 0x007FFFFF) | 0x3F000000).view(np.float32)  # in [0.5, 1)
    small = mantissa < _SQRT_HALF
    exponent -= small
    e = exponent.astype(np.float32)
    x = mantissa - _ONE
    x += mantissa * small
    x_wide = x.astype(np.float64)
    square = x * x
    fused = _Fused(x.shape)
    y = fused.polynomial(_LOG_POLYNOMIAL, x_wide)
    y *= x
    fused.into(y, square, e * _LOG2_LOW)
    y -= square * _HALF_ONE
    y += x
    fused.into(e, _LOG2_HIGH, y)
    return e


def _sin_cos32(angle: Array) -> tuple[Array, Array]:
    """Cephes' single-precision sine and cosine of angles in [0, 2 pi)."""
    octant = (angle * _FOUR_OVER_PI).astype(np.int32)
    octant += 1
    octant &= ~1
    fused = _Fused(angle.shape)
    turns = octant.astype(np.float64)
    reduced = angle.astype(np.float64)
    for part in _QUARTER_PI:
        reduced += turns * part
        reduced = reduced.astype(np.float32).astype(np.float64)
    x = reduced.astype(np.float32)
    square = x * x
    square_wide = square.astype(np.float64)
    cosine = fused.polynomial(_COS_POLYNOMIAL, square_wide)
    cosine *= square
    fused.into(cosine, square_wide, square * -_HALF_ONE)
    cosine += _ONE
    sine = fused.polynomial(_SIN_POLYNOMIAL, square_wide)
    sine *= square
    fused.into(sine, reduced, reduced)
    # In every second quarter circle the two trade places: exchange the bits where the octant says so.
    sine_bits, cosine_bits = sine.view(np.int32), cosine.view(np.int32)
    exchanged = sine_bits ^ cosine_bits
    exchanged &= -((octant & 2) >> 1)
    sine_bits ^= exchanged
    cosine_bits ^= exchanged
    # Sign bits: the sine is negative in the second half circle, the cosine in the two quarters in the middle.
    sine_bits ^= (octant & 4) << 29
    octant += 2
    cosine_bits ^= (octant & 4) << 29
    return sine, cosine
