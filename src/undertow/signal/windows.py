"""Window functions: M weights, symmetric unless `sym` is False, which gives one period of a longer window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from undertow._src.tensor.factory_arguments import check_options, made, parse_kind
from undertow._src.tensor.windows import cosine_sum, kaiser_weights
from undertow._src.types.layouts import strided
from undertow.storage import Array

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


def _window(
    name: str, M: int, weights: Callable[[Array, int], Array], sym: bool, dtype: Any, layout: Any, device: Any,
    requires_grad: bool,
) -> Any:  # fmt: skip
    """Return a window as a tensor. `weights` takes the positions 0, 1, … and the last one of the symmetric window."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    kind = parse_kind(dtype, name)
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if kind.name not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    check_options(name, device)
    if M < 2:
        return made(np.ones(M, kind.numpy), name, requires_grad, device)
    full = M if sym else M + 1
    return made(weights(np.arange(M, dtype=np.float64), full - 1).astype(kind.numpy), name, requires_grad, device)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return exp(−|n − center| / tau)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    weights = lambda n, last: np.exp(-np.abs(n - (last / 2 if center is None else center)) / tau)
    return _window("exponential", M, weights, sym, dtype, layout, device, requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return half a period of a sine, between its zeros."""
    weights = lambda n, last: np.sin((n + 0.5) * (math.pi / (last + 1)))
    return _window("cosine", M, weights, sym, dtype, layout, device, requires_grad)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return a Gaussian with this standard deviation."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    weights = lambda n, last: np.exp(-(((n - last / 2) / std) ** 2) / 2)
    return _window("gaussian", M, weights, sym, dtype, layout, device, requires_grad)


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return the Kaiser window; beta trades the width of the main lobe against the height of the side lobes."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, kaiser_weights(beta), sym, dtype, layout, device, requires_grad)


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return a₀ − a₁ cos(2π n/N) + a₂ cos(4π n/N) − …"""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    factors = tuple(a)
    if not factors:
        raise ValueError("Coefficients cannot be empty")
    return _window("general_cosine", M, cosine_sum(*factors), sym, dtype, layout, device, requires_grad)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return alpha − (1 − alpha) cos(2π n/N)."""
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Return a triangular window."""
    weights = lambda n, last: 1 - np.abs(n * (2 / last) - 1)
    return _window("bartlett", M, weights, sym, dtype, layout, device, requires_grad)


def _named(name: str, doc: str, *factors: float) -> Callable[..., Any]:
    """Return the function of a named sum of cosines."""

    def window(
        M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
        requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        return general_cosine(
            M, a=factors, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
        )

    window.__name__ = window.__qualname__ = name
    window.__doc__ = doc
    return window


hamming = _named("hamming", "Return a Hann window raised by a constant.", 0.54, 0.46)
hann = _named("hann", "sin² from end to end.", 0.5, 0.5)
blackman = _named("blackman", "Return a raised cosine that is zero at the ends.", 0.42, 0.5, 0.08)
nuttall = _named(
    "nuttall", "Return a sum of three cosines with low side lobes.", 0.3635819, 0.4891775, 0.1365995, 0.0106411
)
