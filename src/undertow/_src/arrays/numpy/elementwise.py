"""Elementwise functions on NumPy where its own differ from what a rule means: integers, signs of zero, complex numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any


def _refuse_zero(divisor: Array, divided: Array) -> None:
    if not np.all(divisor) and np.size(divided):
        raise RuntimeError("ZeroDivisionError")


def floor_divide(x: Array, y: Array) -> Array:
    """⌊x / y⌋; an integer divided by zero raises."""
    if _whole(y):
        _refuse_zero(y, x)
    return np.floor_divide(x, y)


def trunc_divide(x: Array, y: Array) -> Array:
    """x / y rounded towards zero; an integer divided by zero raises."""
    if _whole(y) and _whole(x):
        _refuse_zero(y, x)
        return np.floor_divide(x - np.fmod(x, y), y)
    return np.trunc(x / y)


def remainder(x: Array, y: Array) -> Array:
    """x − y ⌊x / y⌋, with the sign of y."""
    if _whole(y):
        _refuse_zero(y, x)
    result = np.remainder(x, y)
    if result.dtype.kind in "fV":  # NumPy gives zero the sign of y
        return np.copysign(result, np.where(result == 0, x, result))
    return result


def fmod(x: Array, y: Array) -> Array:
    """x − y trunc(x / y), with the sign of x."""
    if _whole(y):
        _refuse_zero(y, x)
    return np.fmod(x, y)


def _whole(x: Array) -> bool:
    return x.dtype.kind in "iub"


NO_NEGATIVE_BOOLS = (
    "Negation, the `-` operator, on a bool tensor is not supported. To invert a mask, write `~` or logical_not()."
)


def negative(x: Array) -> Array:
    """Return -x; PyTorch refuses bools."""
    if x.dtype.kind == "b":
        raise RuntimeError(NO_NEGATIVE_BOOLS)
    return np.negative(x)


def power(x: Array, y: Any) -> Array:
    """xʸ, without a logarithm for a common number y.

    An integer to a negative power is rounded to an integer: 0, 1 or -1.
    """
    if type(y) in (int, float):
        if y == 2:
            return x * x
        if y == 1:
            return np.array(x)
        if y == 0.5:
            return np.sqrt(x)
        if y == 3:
            return x * x * x
        if y == -1 and x.dtype.kind in "fc":
            return 1 / x
    elif y is True:
        return np.array(x)
    elif y is False:
        return np.ones_like(x)
    if np.asarray(x).dtype.kind in "iu" and np.asarray(y).dtype.kind == "i":
        low = y < 0
        if np.any(low):
            inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
            return np.where(low, inverse.astype(y.dtype), np.power(x, np.where(low, 0, y)))
    return np.power(x, y)


def _unless_whole(function: Any) -> Any:
    """Return a rounding function that leaves integers unchanged."""

    def rounded(x: Array) -> Array:
        return np.array(x) if x.dtype.kind in "iu" else function(x)

    return rounded


rint, floor, ceil, trunc = [_unless_whole(function) for function in (np.rint, np.floor, np.ceil, np.trunc)]


def round(x: Array, decimals: int) -> Array:
    """Round x to a number of decimals, ties to even."""
    if not decimals:
        return np.rint(x)
    scale = x.dtype.type(10.0 ** (decimals if decimals > 0 else -decimals))
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


def sign(x: Array) -> Array:
    """-1, 0 or 1, and 0 for nan; x / |x| for complex numbers."""
    if x.dtype.kind == "c":
        return np.sign(x)
    return np.array(x) if x.dtype.kind == "b" else np.subtract(x > 0, x < 0, dtype=x.dtype)


def heaviside(x: Array, y: Array) -> Array:
    """0 below zero, 1 above, y at zero."""
    return np.where(x == 0, y, (x > 0).astype(x.dtype))


def logaddexp(x: Array, y: Array) -> Array:
    """Return log(eˣ + eʸ) without intermediate overflow."""
    if x.dtype.kind != "c":
        return np.logaddexp(x, y)
    swap = x.real < y.real
    large: Array = np.where(swap, y, x)
    small: Array = np.where(swap, x, y)
    return large + np.log1p(np.exp(small - large))


left_shift = lambda x, y: np.where(_shifts_all(x, y), 0, np.left_shift(x, y))
right_shift = lambda x, y: np.right_shift(x, np.where(_shifts_all(x, y), 8 * x.dtype.itemsize - 1, y))


def _shifts_all(x: Array, y: Array) -> Array:
    return (y < 0) | (y >= 8 * x.dtype.itemsize)


def nan_to_num(x: Array, nan: float | None, posinf: float | None, neginf: float | None) -> Array:
    """Return x with nan and infinities replaced: by 0 and the largest finite numbers by default."""
    if x.dtype.kind in "iub":
        return np.array(x)
    if x.dtype.kind == "c":
        return complex(nan_to_num(x.real, nan, posinf, neginf), nan_to_num(x.imag, nan, posinf, neginf))
    limits = np.finfo(x.dtype)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    x = np.where(np.isnan(x), 0.0 if nan is None else nan, x)
    return np.where(np.isposinf(x), high, np.where(np.isneginf(x), low, x)).astype(limits.dtype, copy=False)


isposinf = lambda x: x == np.inf
isneginf = lambda x: x == -np.inf
signbit = lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0


# --- selection


def maximum(x: Array, y: Any) -> Array:
    """Return NumPy's maximum; with a number its clip is vectorised, its maximum is not."""
    if type(y) in (int, float) and x.size >= _LARGE and x.dtype.kind == "f":
        return np.clip(x, y, math.inf)
    return np.maximum(x, y)


def minimum(x: Array, y: Any) -> Array:
    if type(y) in (int, float) and x.size >= _LARGE and x.dtype.kind == "f":
        return np.clip(x, -math.inf, y)
    return np.minimum(x, y)


_NUMBERS = (int, float)
_BITS = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}
_LARGE = 2048  # elements from which three passes over bits beat a branch per element


def where(mask: Array, yes: Any, no: Any) -> Array:
    """Return NumPy's where, by arithmetic on bits: np.where branches at each element, which is slow for irregular masks."""
    if type(mask) is np.ndarray and mask.dtype == bool:
        if type(no) is int and no == 0 and type(yes) is np.ndarray and yes.dtype in _BITS:
            return _keep(mask, yes)
        if type(yes) is int and yes == 0 and type(no) is np.ndarray and no.dtype in _BITS:
            return _keep(~mask, no)
        if mask.size >= _LARGE:
            if type(no) is np.ndarray and no.dtype in _BITS and type(yes) in _NUMBERS:
                yes = np.asarray(yes, no.dtype)
            elif type(yes) is np.ndarray and yes.dtype in _BITS and type(no) in _NUMBERS:
                no = np.asarray(no, yes.dtype)
            if type(yes) is type(no) is np.ndarray and yes.dtype in _BITS and yes.dtype == no.dtype:
                if {mask.shape} <= {yes.shape, no.shape} <= {mask.shape, ()}:
                    return _choose(mask, yes, no)
    return np.where(mask, yes, no)


def _keep(mask: Array, x: Array) -> Array:
    """Return x where the mask holds, else 0: its bits times 1 or 0, so that inf and nan do no harm."""
    return np.asarray(np.multiply(x.view(_BITS[x.dtype]), mask)).view(x.dtype)


def _choose(mask: Array, yes: Array, no: Array) -> Array:
    """Return `no`, with the bits in which `yes` differs flipped where the mask holds."""
    yes_bits, no_bits = yes.view(_BITS[yes.dtype]), no.view(_BITS[no.dtype])
    bits = np.bitwise_xor(yes_bits, no_bits)
    np.multiply(bits, mask, out=bits)
    return np.bitwise_xor(bits, no_bits, out=bits).view(yes.dtype)


# --- complex numbers


conj = lambda x: x.conj()
real = lambda x: x.real
imag = lambda x: x.imag


def complex(real: Array, imag: Array) -> Array:
    """Return real + i·imag exactly: without arithmetic that an infinity could spoil."""
    parts = np.broadcast_arrays(real, imag)
    whole = np.empty(parts[0].shape, np.result_type(real, imag, np.complex64))
    whole.real, whole.imag = parts
    return whole


def view_as_real(x: Array) -> Array:
    """Return a view of complex numbers as pairs of real ones along a new last axis."""
    part = x.real
    return np.lib.stride_tricks.as_strided(part, (*part.shape, 2), (*part.strides, part.itemsize))


def view_as_complex(x: Array) -> Array:
    """Return a view of pairs along the last axis as complex numbers."""
    if x.strides[-1] != x.itemsize:  # for example a broadcast gradient
        x = np.ascontiguousarray(x)
    return x.view(np.result_type(x.dtype, np.complex64))[..., 0]


def angle(x: Array) -> Array:
    """Return the angle in the complex plane: 0 or π for real numbers, nan for nan."""
    if x.dtype.kind == "c":
        return np.arctan2(x.imag, x.real)
    return np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0).astype(x.dtype))
