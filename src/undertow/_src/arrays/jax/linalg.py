"""Products of matrices and their decompositions on JAX, batched, over the last two axes."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from undertow._src.arrays.numpy import linalg as numpy_linalg
from undertow._src.arrays.jax.tracing import is_traced, on_host, platform_of, shaped, values_of
from undertow._src.arrays.precision import Precision
from undertow._src.arrays.svd_signs import signed_svd

Array = Any


def _precision(x: Array) -> Any:
    """Return the precision of float32 products, which a GPU would compute in TF32 by default."""
    exact = Precision.float32_products == "highest" and x.dtype == np.float32 and platform_of(x) == "gpu"
    return lax.Precision.HIGHEST if exact else None


def matmul(x: Array, y: Array) -> Array:
    """Return the matrix product; a stack of matrices times one matrix is a single tall product."""
    if x.ndim > 2 and y.ndim == 2:
        return matmul(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[-1])
    if x.ndim == 2 == y.ndim:
        return lax.dot(x, y, precision=_precision(x))
    return jnp.matmul(x, y, precision=_precision(x))


def addmm(bias: Array, x: Array, y: Array, beta: Any, alpha: Any) -> Array:
    """Return beta bias + alpha x @ y; a bias of weight 0 is not read."""
    out = matmul(x, y)
    if is_traced(alpha) or alpha != 1:
        out = out * alpha
    if is_traced(beta):
        return out + bias * beta
    return out if beta == 0 else out + (bias if beta == 1 else bias * beta)


def cross(x: Array, y: Array, axis: int) -> Array:
    """Return the cross product along an axis of length 3."""
    x, y = jnp.broadcast_arrays(x, y)
    (a, b, c), (d, e, f) = jnp.moveaxis(x, axis, 0), jnp.moveaxis(y, axis, 0)
    return jnp.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis)


def eye(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return ones on the diagonal of a matrix of this shape."""
    return np.eye(*shape[-2:], dtype=dtype)


# --- square matrices


def _adjoint(x: Array) -> Array:
    return jnp.conj(jnp.swapaxes(x, -2, -1))


def det(x: Array) -> Array:
    return jnp.linalg.det(x)


def slogdet(x: Array) -> tuple[Array, Array]:
    sign, logabs = jnp.linalg.slogdet(x)
    return sign, logabs


def inverse(x: Array) -> Array:
    """Return the inverse; nan for a singular matrix, for which the caller raises."""
    return solve(x, jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape))


def cofactors(x: Array, det: Array) -> Array:
    """Return det(A) A⁻ᵀ; zeros for a singular A, as in PyTorch where the gradient is not differentiated further."""
    solid = jnp.asarray(det != 0)[..., None, None]
    safe = jnp.where(solid, x, jnp.eye(x.shape[-1], dtype=x.dtype))
    return jnp.asarray(det)[..., None, None] * jnp.swapaxes(inverse(safe), -2, -1)


def solve(a: Array, b: Array) -> Array:
    """X with a X = b, both stacks of matrices; nan for a singular a."""
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = jnp.broadcast_to(a, shape + a.shape[-2:]), jnp.broadcast_to(b, shape + b.shape[-2:])
    if not a.size or not b.size:
        return jnp.zeros(b.shape, jnp.result_type(a, b))
    both, _, order = lax.linalg.lu(a)
    singular = jnp.any(jnp.diagonal(both, axis1=-2, axis2=-1) == 0, -1)[..., None, None]
    turned = jnp.take_along_axis(b, order[..., None], -2)
    found = solve_triangular(both, solve_triangular(both, turned, False, True), True, False)
    return jnp.where(singular, math.nan, found)


def solve_triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """Return X with a X = b for a triangular a; its other triangle is not read."""
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = jnp.broadcast_to(a, shape + a.shape[-2:]), jnp.broadcast_to(b, shape + b.shape[-2:])
    if not b.size:
        return b
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=not upper, unit_diagonal=unit)


def cholesky(x: Array, upper: bool) -> Array:
    """Return the triangular factor; nan where there is none."""
    lower = lax.linalg.cholesky(_adjoint(x) if upper else x, symmetrize_input=False) if x.size else x
    return _adjoint(lower) if upper else lower


def cholesky_solve(b: Array, factor: Array, upper: bool) -> Array:
    """X with A X = b, given A's triangular factor."""
    lower, higher = (_adjoint(factor), factor) if upper else (factor, _adjoint(factor))
    return solve_triangular(higher, solve_triangular(lower, b, False, False), True, False)


def _permutation(order: Array, dtype: Any) -> Array:
    return jnp.swapaxes(jnp.eye(order.shape[-1], dtype=dtype)[order], -2, -1)


def lu_factor(x: Array) -> tuple[Array, Array, Array]:
    """Return both triangles in one matrix, the row exchanges, and the permutation matrix P of x = P L U."""
    both, pivots, order = lax.linalg.lu(x)
    return both, (pivots + 1).astype(np.int32), _permutation(order, x.dtype)


def lu_parts(x: Array) -> tuple[Array, Array, Array]:
    """P, L and U with x = P L U."""
    both, _, order = lax.linalg.lu(x)
    k = min(x.shape[-2:])
    lower = jnp.tril(both[..., :k], -1) + jnp.eye(x.shape[-2], k, dtype=x.dtype)
    return _permutation(order, x.dtype), lower, jnp.triu(both[..., :k, :])


# --- decompositions


def qr(x: Array, mode: str) -> tuple[Array, Array]:
    if mode == "r":
        return jnp.zeros(0, x.dtype), jnp.linalg.qr(x, "r")
    q, r = jnp.linalg.qr(x, mode)
    return q, r


def geqrf(x: Array) -> tuple[Array, Array]:
    """Return R above the diagonal, the reflections that make Q below it, and their weights."""
    h, tau = jnp.linalg.qr(x, "raw")
    return jnp.swapaxes(h, -2, -1), tau


def svd(x: Array, full: bool) -> tuple[Array, Array, Array]:
    return signed_svd(jnp, x, full)


def eigh(x: Array, lower: bool) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(x, UPLO="L" if lower else "U", symmetrize_input=False)
    return values, vectors


def eig(x: Array) -> tuple[Array, Array]:
    """Return the eigenvalues and vectors of any matrix, complex; on the host, as XLA has them for CPUs only."""
    kind = np.result_type(x.dtype, np.complex64)
    return on_host(numpy_linalg.eig, (shaped(x.shape[:-1], kind), shaped(x.shape, kind)), x)


def _reciprocals(values: Array, limit: Array) -> Array:
    """Return 1 / values, and 0 for those of magnitude up to the limit."""
    solid = jnp.abs(values) > limit
    return jnp.where(solid, 1 / jnp.where(solid, values, 1), 0)


def pinv(x: Array, cutoff: Any, hermitian: bool) -> Array:
    """Return the pseudo-inverse; singular values up to `cutoff` (of the largest) count as zero."""
    if hermitian:
        values, vectors = eigh(x, True)
        limit = cutoff(jnp.abs(values).max(-1, initial=0))[..., None]
        return (vectors * _reciprocals(values, limit)[..., None, :]) @ _adjoint(vectors)
    u, s, vh = svd(x, False)
    limit = cutoff(s.max(-1, initial=0))[..., None]
    return (_adjoint(vh) * _reciprocals(s, limit)[..., None, :]) @ _adjoint(u)


def matrix_exp(x: Array) -> Array:
    """e^A."""
    wide = x.astype(np.result_type(x.dtype, np.float64))
    return jax.scipy.linalg.expm(wide, max_squarings=48).astype(x.dtype) if x.size else x


def least_squares(a: Array, b: Array, cutoff: Any, driver: str) -> tuple[Array, Array, Array, Array]:
    """Return the X of least norm that minimises |a X - b|; whether there are residuals depends on a's rank."""
    left, right = values_of("linalg.lstsq", "Use torch.linalg.pinv(a) @ b.", a, b)
    found = numpy_linalg.least_squares(left, right, cutoff, driver)
    return jnp.asarray(found[0]), jnp.asarray(found[1]), jnp.asarray(found[2]), jnp.asarray(found[3])
