"""Elementwise functions on JAX where its own differ from what a rule means: integers, signs of zero, nan, ties."""

from __future__ import annotations

import builtins
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.jax.tracing import is_traced
from undertow._src.arrays.numpy.elementwise import NO_NEGATIVE_BOOLS

Array = Any


def _refuse_zero(divisor: Array, divided: Array) -> None:
    """Refuse a divisor of 0 if its value is known; a compiled step can't stop for one."""
    if not is_traced(divisor) and not np.all(np.asarray(divisor)) and np.size(divided):
        raise RuntimeError("ZeroDivisionError")


def _whole(x: Array) -> bool:
    return jnp.result_type(x).kind in "iub"


def _of_one_dtype(x: Any, y: Any) -> tuple[Array, Array]:
    dtype = jnp.result_type(x, y)
    return jnp.asarray(x, dtype), jnp.asarray(y, dtype)


def floor_divide(x: Array, y: Array) -> Array:
    """⌊x / y⌋; an integer divided by zero raises."""
    if _whole(y):
        _refuse_zero(y, x)
        return jnp.floor_divide(x, y)
    rounded = jnp.floor_divide(x, y)
    return jnp.where(y == 0, x / y, jnp.where(rounded == 0, jnp.copysign(0, x / y), rounded)).astype(rounded.dtype)


def trunc_divide(x: Array, y: Array) -> Array:
    """x / y rounded towards zero; an integer divided by zero raises."""
    if _whole(y) and _whole(x):
        _refuse_zero(y, x)
        return lax.div(*jnp.broadcast_arrays(*_of_one_dtype(x, y)))
    return jnp.trunc(x / y)


def remainder(x: Array, y: Array) -> Array:
    """x − y ⌊x / y⌋, with the sign of y."""
    if _whole(y):
        _refuse_zero(y, x)
    return jnp.remainder(x, y)


def fmod(x: Array, y: Array) -> Array:
    """x − y trunc(x / y), with the sign of x."""
    if _whole(y):
        _refuse_zero(y, x)
    return jnp.fmod(x, y)


def negative(x: Array) -> Array:
    """Return -x; PyTorch refuses bools."""
    if x.dtype.kind == "b":
        raise RuntimeError(NO_NEGATIVE_BOOLS)
    return jnp.negative(x)


def power(x: Array, y: Any) -> Array:
    """xʸ, without a logarithm for a common number y.

    An integer to a negative power is rounded to an integer: 0, 1 or -1.
    """
    if type(y) in (int, float):
        if y == 2:
            return x * x
        if y == 1:
            return x
        if y == 0.5:
            return jnp.sqrt(x)
        if y == 3:
            return x * x * x
        if y == -1 and x.dtype.kind in "fc":
            return 1 / x
    elif y is True:
        return x
    elif y is False:
        return jnp.ones_like(x)
    if jnp.result_type(x).kind in "iu" and jnp.result_type(y).kind in "iu":
        if type(y) is int and y >= 0:
            return lax.integer_pow(x, y)
        x, y = _of_one_dtype(x, y)
        low = y < 0
        inverse = jnp.where(x == 1, 1, jnp.where(x == -1, jnp.where(y % 2 == 0, 1, -1), 0)).astype(y.dtype)
        return jnp.where(low, inverse, _whole_power(x, jnp.where(low, 0, y)))
    return jnp.power(x, y)


def _whole_power(x: Array, y: Array) -> Array:
    """Return xʸ by squaring, which wraps around on overflow."""
    x, y = jnp.broadcast_arrays(x, y)

    def step(bit: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        power, square = found
        return jnp.where((y >> bit.astype(y.dtype)) & 1 != 0, power * square, power), square * square

    return lax.fori_loop(0, 8 * y.dtype.itemsize, step, (jnp.ones_like(x), x))[0]


def _unless_whole(function: Any) -> Any:
    """Return a rounding function that leaves integers unchanged."""

    def rounded(x: Array) -> Array:
        return x if x.dtype.kind in "iu" else function(x)

    return rounded


rint, floor, ceil, trunc = [_unless_whole(function) for function in (jnp.rint, jnp.floor, jnp.ceil, jnp.trunc)]


def round(x: Array, decimals: int) -> Array:
    """Round x to a number of decimals, ties to even."""
    if not decimals:
        return jnp.rint(x)
    scale = 10.0 ** builtins.abs(decimals)
    return jnp.rint(x * scale) / scale if decimals > 0 else jnp.rint(x / scale) * scale


def sign(x: Array) -> Array:
    """-1, 0 or 1, and 0 for nan; x / |x| for complex numbers."""
    if x.dtype.kind == "c":
        return jnp.sign(x)
    return x if x.dtype.kind == "b" else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def heaviside(x: Array, y: Array) -> Array:
    """0 below zero, 1 above, y at zero."""
    return jnp.where(x == 0, y, (x > 0).astype(x.dtype))


def logaddexp(x: Array, y: Array) -> Array:
    """Return log(eˣ + eʸ) without intermediate overflow."""
    if x.dtype.kind != "c":
        return jnp.logaddexp(x, y)
    swap = x.real < y.real
    large, small = jnp.where(swap, y, x), jnp.where(swap, x, y)
    return large + jnp.log1p(jnp.exp(small - large))


left_shift = lambda x, y: jnp.where(_shifts_all(x, y), 0, jnp.left_shift(x, y))
right_shift = lambda x, y: jnp.right_shift(x, jnp.where(_shifts_all(x, y), 8 * x.dtype.itemsize - 1, y))


def _shifts_all(x: Array, y: Array) -> Array:
    return (y < 0) | (y >= 8 * x.dtype.itemsize)


def nan_to_num(x: Array, nan: float | None, posinf: float | None, neginf: float | None) -> Array:
    """Return x with nan and infinities replaced: by 0 and the largest finite numbers by default."""
    if x.dtype.kind in "iub":
        return x
    return jnp.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


isposinf = lambda x: x == math.inf
isneginf = lambda x: x == -math.inf
signbit = lambda x: jnp.signbit(x) if x.dtype.kind == "f" else x < 0


# --- selection


def where(mask: Array, yes: Any, no: Any) -> Array:
    """Return JAX's where; a mask may be of numbers, as NumPy allows."""
    return jnp.where(mask if jnp.result_type(mask).kind == "b" else mask != 0, yes, no)


# --- complex numbers


real = lambda x: x.real
imag = lambda x: x.imag


def complex(real: Array, imag: Array) -> Array:
    """Return real + i·imag exactly: without arithmetic that an infinity could spoil."""
    dtype = jnp.result_type(real, imag)
    return lax.complex(*jnp.broadcast_arrays(jnp.asarray(real, dtype), jnp.asarray(imag, dtype)))


def view_as_real(x: Array) -> Array:
    """Return complex numbers as pairs of real ones along a new last axis."""
    return jnp.stack([x.real, x.imag], -1)


def view_as_complex(x: Array) -> Array:
    """Return pairs along the last axis as complex numbers."""
    return lax.complex(x[..., 0], x[..., 1])


def angle(x: Array) -> Array:
    """Return the angle in the complex plane: 0 or π for real numbers, nan for nan."""
    if x.dtype.kind == "c":
        return jnp.arctan2(x.imag, x.real)
    return jnp.where(jnp.isnan(x), x, jnp.where(x < 0, jnp.asarray(math.pi, x.dtype), 0))


# --- curves


sigmoid = lambda x: 1 / (1 + jnp.exp(-x)) if x.dtype.kind == "c" else lax.logistic(x)
silu = lambda x: x * sigmoid(x)


def silu_grad(g: Array, x: Array) -> Array:
    s = sigmoid(x)
    return g * (s * (x * (1 - s) + 1))


log_sigmoid = lambda x: jnp.minimum(x, 0) - jnp.log1p(jnp.exp(-jnp.abs(x)))
softplus = lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))
logit = lambda x: jnp.log(x / (1 - x))


def gelu_cdf(x: Array) -> Array:
    """½ (1 + erf(x/√2))."""
    return (lax.erf(x * math.sqrt(0.5)) + 1) * 0.5


gelu = lambda x: x * gelu_cdf(x)
gelu_grad = lambda g, x: g * (gelu_cdf(x) + x * (jnp.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))))


# --- softmax


def _wide(x: Array) -> Array:
    """Return half precision as float32; results are rounded once."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def softmax(x: Array, axis: int) -> Array:
    """eˣ / Σ eˣ along an axis."""
    if not x.ndim:
        return jnp.ones_like(x)
    if not x.size:
        return x
    wide = _wide(x)
    exponentials = jnp.exp(wide - jnp.max(wide, axis, keepdims=True))
    return (exponentials / jnp.sum(exponentials, axis, keepdims=True)).astype(x.dtype)


def log_softmax(x: Array, axis: int) -> Array:
    """x − log Σ eˣ along an axis."""
    if not x.ndim:
        return jnp.zeros_like(x)
    if not x.size:
        return x
    wide = _wide(x)
    shifted = wide - jnp.max(wide, axis, keepdims=True)
    return (shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, keepdims=True))).astype(x.dtype)


def softmax_grad(g: Array, y: Array, axis: int) -> Array:
    """Through y = softmax(x): y (g − Σ g·y)."""
    if not g.ndim:
        return jnp.zeros_like(g)
    wide, weights = _wide(g), _wide(y)
    return (weights * (wide - jnp.sum(wide * weights, axis, keepdims=True))).astype(g.dtype)


def log_softmax_grad(g: Array, y: Array, axis: int) -> Array:
    """Through y = log_softmax(x): g − eʸ Σ g."""
    if not g.ndim:
        return jnp.zeros_like(g)
    wide = _wide(g)
    return (wide - jnp.exp(_wide(y)) * jnp.sum(wide, axis, keepdims=True)).astype(g.dtype)


def logsumexp(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """log Σ eˣ over axes, shifted by the maximum where that is finite."""
    wide = _wide(x)
    if not x.size:
        return jnp.log(jnp.sum(jnp.exp(wide), axes, keepdims=keepdims)).astype(x.dtype)
    return jax.nn.logsumexp(wide, axes if x.ndim else None, keepdims=keepdims).astype(x.dtype)
