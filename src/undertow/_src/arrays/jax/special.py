"""Special functions on JAX: XLA's own where it has them, NumPy's on the host for the rest."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

from undertow._src.arrays.numpy import draws, gamma as numpy_gamma, special as numpy_special
from undertow._src.arrays.jax.tracing import on_host, shaped

Array = Any

erf, erfc, erfinv = lax.erf, lax.erfc, lax.erf_inv
lgamma = lax.lgamma


def digamma(x: Array) -> Array:
    """Return the logarithmic derivative of the gamma function; its pole at 0 has a sign."""
    return jnp.where(x == 0, jnp.copysign(jnp.inf, -x).astype(x.dtype), lax.digamma(x))


i0, i0e, i1, i1e = special.i0, special.i0e, special.i1, special.i1e
ndtr, ndtri, log_ndtr = special.ndtr, special.ndtri, special.log_ndtr


def _on_host(function: Any, *arrays: Array) -> Array:
    """Return an elementwise NumPy function, run on the host."""
    shape = np.broadcast_shapes(*[array.shape for array in arrays])
    return on_host(function, shaped(shape, arrays[-1].dtype), *arrays)


def erfcx(x: Array) -> Array:
    """e^(x²) erfc(x)."""
    return _on_host(numpy_special.erfcx, x)


def polygamma(n: int, x: Array) -> Array:
    """Return the n-th derivative of digamma."""
    return _on_host(lambda values: numpy_gamma.polygamma(n, values), x)


def zeta(s: Array, q: Array) -> Array:
    """Σ (q + k)⁻ˢ."""
    return _on_host(numpy_gamma.zeta, s, q)


def igamma(a: Array, x: Array) -> Array:
    """Return the lower regularised incomplete gamma function."""
    return lax.igamma(*jnp.broadcast_arrays(a, x))


def igammac(a: Array, x: Array) -> Array:
    """Return the upper regularised incomplete gamma function."""
    return lax.igammac(*jnp.broadcast_arrays(a, x))


def standard_gamma_grad(alpha: Array, x: Array) -> Array:
    """Return the derivative of a gamma draw by its shape."""
    return _on_host(draws.standard_gamma_grad, alpha, x)


def dirichlet_grad(x: Array, alpha: Array, total: Array) -> Array:
    """Return the derivative of a component of a Dirichlet draw, divided by 1 - x."""
    return on_host(
        draws.dirichlet_grad, shaped(np.broadcast_shapes(x.shape, alpha.shape, total.shape), x.dtype), x, alpha, total
    )
