"""Window functions: weights for the samples of a segment of a signal, highest in the middle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.arrays.numpy.gamma import i0
from undertow._src.engine.arguments import as_int, invalid_combination, is_int, must_be
from undertow._src.ops.numbers import is_number
from undertow._src.ops.public import overloaded
from undertow._src.tensor.factory_arguments import check_options, made, parse_kind
from undertow.storage import Array


def _window(
    name: str, length: Any, periodic: bool, weights: Callable[[Array, int], Array], dtype: Any, layout: Any,
    device: Any, pin_memory: bool, requires_grad: bool,
) -> Any:  # fmt: skip
    """Return a window as a tensor from `weights(positions, last)`; a periodic window omits its last sample."""
    kind = parse_kind(dtype, name)
    check_options(name, device, layout, pin_memory)
    if not is_int(length):
        raise must_be("int", length, name, "window_length", 1)
    length = as_int(length, name, "window_length", 1)
    if not kind.is_floating_point:
        if kind.is_complex:
            raise NotImplementedError(f"\"arange_cpu\" not implemented for '{kind.scalar_name}'")
        raise RuntimeError(f"{name} expects floating point dtypes, got: TensorOptions(dtype={kind.c_name}, device=cpu)")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if length < 2:
        return made(np.ones(length, kind.numpy), name, requires_grad, device)
    full = length + 1 if periodic else length
    values = weights(np.arange(full, dtype=np.float64), full - 1)[:length]
    return made(values.astype(kind.numpy), name, requires_grad, device)


def cosine_sum(*factors: float) -> Callable[[Array, int], Array]:
    """Return a₀ − a₁ cos(2π n/N) + a₂ cos(4π n/N) …"""

    def weights(places: Array, last: int) -> Array:
        turns = places * (2 * math.pi / last)
        total = np.full_like(places, factors[0])
        for k, factor in enumerate(factors[1:], 1):
            total = total + (-1) ** k * factor * np.cos(k * turns)
        return total

    return weights


def kaiser_weights(beta: float) -> Callable[[Array, int], Array]:
    """Return I₀(beta √(1 − x²)) / I₀(beta) for x from −1 to 1."""

    def weights(places: Array, last: int) -> Array:
        along = places * (2 / last) - 1
        return i0(beta * np.sqrt(np.maximum(1 - along * along, 0))) / i0(np.asarray(float(beta)))

    return weights


def _check_numbers(name: str, length: Any, periodic: Any, *factors: Any) -> None:
    if not isinstance(periodic, bool) or not all(map(is_number, factors)):
        raise invalid_combination(name, (length, periodic, *factors))


def _plain_window(name: str, weights: Callable[[Array, int], Array], doc: str) -> Callable[..., Any]:
    def window(
        window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: bool = False, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        _check_numbers(name, window_length, periodic)
        return _window(name, window_length, periodic, weights, dtype, layout, device, pin_memory, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = doc
    return overloaded(window)


bartlett_window = _plain_window(
    "bartlett_window", lambda places, last: 1 - np.abs(places * (2 / last) - 1), "A triangle."
)
blackman_window = _plain_window("blackman_window", cosine_sum(0.42, 0.5, 0.08), "Two waves that cancel at the ends.")
hann_window = _plain_window("hann_window", cosine_sum(0.5, 0.5), "sin² from end to end.")


@overloaded
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return alpha − beta cos: the Hann window on a pedestal."""
    _check_numbers("hamming_window", window_length, periodic, alpha, beta)
    return _window(
        "hamming_window", window_length, periodic, cosine_sum(alpha, beta), dtype, layout, device, pin_memory,
        requires_grad,
    )  # fmt: skip


@overloaded
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return the Kaiser window; beta trades the width of its peak against leakage."""
    _check_numbers("kaiser_window", window_length, periodic, beta)
    return _window(
        "kaiser_window", window_length, periodic, kaiser_weights(beta), dtype, layout, device, pin_memory, requires_grad
    )
