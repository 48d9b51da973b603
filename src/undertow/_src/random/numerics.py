"""Arithmetic that gives, bit for bit, what PyTorch's compiled kernels give.

Three facts decide the last bit of a draw:

- PyTorch's kernels are compiled with fused multiply-add, so ``a * b + c`` is rounded once, not twice.
- Its double-precision kernels call the C library's ``log``, ``sin``, ``exp``. NumPy has vector versions of its own that
  differ in the last bit, so double results go through Python's ``math`` or through NumPy's complex ``exp``, both of
  which call the C library. Where the result is rounded to float32 or less that bit is lost, and NumPy's are used.
- A double reaches float16 or bfloat16 by way of float32 (two roundings).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

#: Significand bits of the floating dtypes a stream can fill.
SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}

_SPLITTER = 134217729.0  # 2**27 + 1 cuts a double into two halves of 26 bits


def cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert as C++ would: silently to infinity, and to 16-bit floats by way of float32."""
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore"):
        if dtype.itemsize == 2 and dtype.name in SIGNIFICAND_BITS:
            values = values.astype(np.float32)
        return values.astype(dtype)


def fma32(a: Array, b: Array | float, c: Array | float) -> Array:
    """Return ``a * b + c`` of float32 values, rounded once (the product of two floats is exact in double)."""
    total = a.astype(np.float64)
    total *= b
    total += c
    return total.astype(np.float32)


def fma64(a: Array, b: float, c: float) -> Array:
    """Return ``a * b + c`` of doubles, rounded once, by Dekker's error-free product and Knuth's error-free sum."""
    product = a * b
    if b in (0.0, 1.0) or c == 0.0 or not math.isfinite(b) or not math.isfinite(c):
        return product + c
    scaled = a * _SPLITTER
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    b_scaled = b * _SPLITTER
    b_high = b_scaled - (b_scaled - b)
    b_low = b - b_high
    product_error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    carried = total - product
    total_error = (product - (total - carried)) + (c - carried)
    fused = total + (total_error + product_error)
    return np.where(np.isfinite(fused), fused, total)


def affine(values: Array, scale: float, shift: float) -> Array:
    """Return ``values * scale + shift`` in the values' own precision (float32 or float64), rounded once."""
    if values.dtype == np.float64:
        return fma64(values, scale, shift)
    factor, summand = np.float32(scale), np.float32(shift)
    if factor == 1.0 or summand == 0.0:
        return values * factor + summand
    return fma32(values, float(factor), float(summand))


def through_c_library(function: Callable[[float], float], values: Array) -> Array:
    """Apply a scalar function of Python's ``math`` (so of the C library) to a double array."""
    return np.fromiter(map(function, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


def exact_sin_cos(angles: Array) -> tuple[Array, Array]:
    """Return the C library's sine and cosine of doubles: a complex exponential with no real part returns both."""
    turned = np.exp(angles * 1j)
    return turned.imag, turned.real


def exact_exp(values: Array) -> Array:
    """Return the C library's exponential of doubles, by way of the complex one."""
    return np.exp(values.astype(np.complex128)).real


def exact_log(values: Array) -> Array:
    """Return the C library's natural logarithm of doubles in (0, 1]."""
    return through_c_library(math.log, values)


def exact_log1p(values: Array) -> Array:
    """Return the C library's ``log1p`` of doubles."""
    return through_c_library(math.log1p, values)
