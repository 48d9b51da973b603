"""Products of matrices and their decompositions on NumPy, batched, over the last two axes."""

from __future__ import annotations

import math
from bisect import bisect
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from undertow._src.arrays.svd_signs import signed_svd

Array = np.ndarray[Any, np.dtype[Any]]


def by_columns(x: Array) -> Array:
    """Return matrices in column-major order, as LAPACK returns its results and PyTorch passes them on."""
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -2, -1)), -2, -1)


def by_rows(x: Any) -> Any:
    """Return results contiguous, for functions that PyTorch computes into new buffers."""
    return x if not isinstance(x, np.ndarray) or x.flags.c_contiguous else np.ascontiguousarray(x)


# --- products


def matmul(x: Array, y: Array) -> Any:
    """Return the matrix product. For two matrices `dot` calls the same BLAS with a third of the overhead."""
    return x.dot(y) if x.ndim == 2 == y.ndim else np.matmul(x, y)


def addmm(bias: Array, x: Array, y: Array, beta: Any, alpha: Any) -> Array:
    """Return beta bias + alpha x @ y; a bias of weight 0 is not read."""
    out = x.dot(y) if x.ndim == 2 else np.matmul(x, y)
    if alpha != 1:
        out *= np.asarray(alpha, out.dtype)
    if beta == 1:
        out += bias
    elif beta != 0:
        out += np.asarray(beta, out.dtype) * bias
    return out


def cross(x: Array, y: Array, axis: int) -> Array:
    """Return the cross product along an axis of length 3."""
    x, y = np.broadcast_arrays(x, y)
    (a, b, c), (d, e, f) = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    return by_rows(np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis))


def eye(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return ones on the diagonal of a matrix of this shape."""
    return np.eye(*shape[-2:], dtype=dtype)


# --- square matrices


def det(x: Array) -> Any:
    return by_rows(np.linalg.det(x))


def slogdet(x: Array) -> tuple[Any, Any]:
    sign, logabs = np.linalg.slogdet(x)
    return by_rows(sign), by_rows(logabs)


def inverse(x: Array) -> Array:
    """Return the inverse; nan for a singular matrix, for which the caller raises."""
    try:
        return by_columns(np.linalg.inv(x))
    except LinAlgError:
        return by_columns(_each(np.linalg.inv, x))


def _each(function: Any, x: Array) -> Array:
    """Apply a function to square matrices one by one, with nan where it fails."""
    out = np.empty_like(x)
    for place in np.ndindex(x.shape[:-2]):
        try:
            out[place] = function(x[place])
        except LinAlgError:
            out[place] = np.nan
    return out


def cofactors(x: Array, det: Array) -> Array:
    """Return det(A) A⁻ᵀ; zeros for a singular A, as in PyTorch where the gradient is not differentiated further."""
    solid = np.asarray(det != 0)
    if solid.all():
        return np.asarray(det)[..., None, None] * np.swapaxes(np.linalg.inv(x), -2, -1)
    safe = np.where(solid[..., None, None], x, np.eye(x.shape[-1], dtype=x.dtype))
    return np.asarray(det)[..., None, None] * np.swapaxes(np.linalg.inv(safe), -2, -1)


def solve(a: Array, b: Array) -> Array:
    """X with a X = b, both stacks of matrices; nan for a singular a."""
    try:
        return by_columns(np.linalg.solve(a, b))
    except LinAlgError:
        shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = np.broadcast_to(a, shape + a.shape[-2:]), np.broadcast_to(b, shape + b.shape[-2:])
        out = np.empty(b.shape, np.result_type(a, b))
        for place in np.ndindex(shape):
            try:
                out[place] = np.linalg.solve(a[place], b[place])
            except LinAlgError:
                out[place] = np.nan
        return by_columns(out)


def solve_triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """Return X with a X = b for a triangular a; its other triangle is not read."""
    return by_columns(_solve_triangular(a, b, upper, unit))


_TRIANGLE = 16  # triangles up to this size are solved row by row


def _solve_triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """Solve block by block of rows: subtract what is known, and multiply by the inverse of a small triangle."""
    n = a.shape[-1]
    starts = range(0, n, _TRIANGLE)
    if len(starts) < 2:
        return _substituted(a, b, upper, unit)
    triangles = np.broadcast_to(np.eye(_TRIANGLE, dtype=a.dtype), (*a.shape[:-2], len(starts), _TRIANGLE, _TRIANGLE))
    triangles = np.array(triangles)
    blocks = [slice(start, min(start + _TRIANGLE, n)) for start in starts]
    for place, block in enumerate(blocks):
        size = block.stop - block.start
        triangles[..., place, :size, :size] = a[..., block, block]
    inverses = _substituted(triangles, np.eye(_TRIANGLE, dtype=a.dtype), upper, unit)
    if not np.isfinite(inverses).all():  # a zero on the diagonal: the rows that it does not reach have a solution
        return _substituted(a, b, upper, unit)
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.array(np.broadcast_to(b, shape + b.shape[-2:]))
    for place, block in reversed([*enumerate(blocks)]) if upper else enumerate(blocks):
        known, size = slice(block.stop, n) if upper else slice(block.start), block.stop - block.start
        rest = out[..., block, :] - a[..., block, known] @ out[..., known, :]
        out[..., block, :] = inverses[..., place, :size, :size] @ rest
    return out


def _substituted(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """Solve row by row."""
    n = a.shape[-1]
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.array(np.broadcast_to(b, shape + b.shape[-2:]))
    for row in range(n - 1, -1, -1) if upper else range(n):
        known = slice(row + 1, n) if upper else slice(row)
        if row != (n - 1 if upper else 0):
            out[..., row, :] -= (a[..., row, None, known] @ out[..., known, :])[..., 0, :]
        if not unit:
            out[..., row, :] /= a[..., row, row, None]
    return out


def cholesky(x: Array, upper: bool) -> Array:
    return by_columns(np.linalg.cholesky(x, upper=upper))


def cholesky_as_far_as_it_goes(x: Array, upper: bool) -> Array:
    """Return Cholesky factors; of a matrix that is not positive definite, LAPACK's partial result.

    Its columns before the first bad minor are those of a factor, the ones after it are unchanged.
    """
    lower = np.tril(np.swapaxes(x, -2, -1).conj() if upper else x)
    for a in lower.reshape(-1, *x.shape[-2:]):
        for j in range(len(a)):
            pivot = (a[j, j] - a[j, :j] @ a[j, :j].conj()).real
            if not pivot > 0:
                a[j, j] = pivot
                break
            a[j, j] = np.sqrt(pivot)
            a[j + 1 :, j] = (a[j + 1 :, j] - a[j + 1 :, :j] @ a[j, :j].conj()) / a[j, j]
    return by_columns(np.swapaxes(lower, -2, -1).conj() if upper else lower)


def cholesky_solve(b: Array, factor: Array, upper: bool) -> Array:
    """X with A X = b, given A's triangular factor."""
    adjoint = np.swapaxes(factor, -2, -1).conj()
    lower, higher = (adjoint, factor) if upper else (factor, adjoint)
    return solve_triangular(higher, solve_triangular(lower, b, False, False), True, False)


def lu(x: Array) -> tuple[Array, Array, Array]:
    """Return both triangles in one matrix, the row exchanges as LAPACK counts them, and a permutation of the rows.

    A zero pivot is no error: its column is left unchanged.
    """
    out = np.array(x)
    rows, columns = x.shape[-2:]
    stack = out.reshape(math.prod(x.shape[:-2]), rows, columns)
    pivots = np.empty((len(stack), min(rows, columns)), np.int32)
    order = np.tile(np.arange(rows), (len(stack), 1))
    each = np.arange(len(stack))
    for begin in range(0, min(rows, columns), _TRIANGLE):  # a few columns at a time, the rest in one product
        end = min(begin + _TRIANGLE, rows, columns)
        for k in range(begin, end):
            column = stack[:, k:, k]
            sizes = np.abs(column.real) + np.abs(column.imag) if x.dtype.kind == "c" else np.abs(column)  # as LAPACK's
            best = k + np.argmax(sizes, 1)
            pivots[:, k] = best + 1
            for target in (stack, order):
                target[each, k], target[each, best] = target[each, best], target[each, k]
            pivot = stack[:, k, k, None]
            stack[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
            stack[:, k + 1 :, k + 1 : end] -= stack[:, k + 1 :, k, None] * stack[:, k, None, k + 1 : end]
        right = stack[:, begin:end, end:]
        right[...] = _substituted(stack[:, begin:end, begin:end], right, upper=False, unit=True)
        stack[:, end:, end:] -= stack[:, end:, begin:end] @ right
    batch = x.shape[:-2]
    return out, pivots.reshape(*batch, -1), order.reshape(*batch, rows)


# --- decompositions


def qr(x: Array, mode: str) -> tuple[Array, Array]:
    if mode == "r":
        return np.empty(0, x.dtype), by_columns(np.asarray(np.linalg.qr(x, "r")))
    q, r = np.linalg.qr(x, mode)  # type: ignore[call-overload]
    return by_columns(q), by_columns(r)


def geqrf(x: Array) -> tuple[Array, Array]:
    """Return R above the diagonal, the reflections that make Q below it, and their weights."""
    h, tau = np.linalg.qr(x, "raw")
    return by_columns(np.swapaxes(h, -2, -1).astype(x.dtype)), np.asarray(tau).astype(x.dtype)


def svd(x: Array, full: bool) -> tuple[Array, Array, Array]:
    u, s, vh = signed_svd(np, x, full)
    return by_columns(u), by_rows(s), by_columns(vh)


def eigh(x: Array, lower: bool) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(x, "L" if lower else "U")
    return by_rows(values), by_columns(vectors)


def eig(x: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eig(x)
    kind = np.result_type(x.dtype, np.complex64)
    return by_rows(values.astype(kind)), by_columns(vectors.astype(kind))


def pinv(x: Array, cutoff: Any, hermitian: bool) -> Array:
    """Return the pseudo-inverse; singular values up to `cutoff` (of the largest) count as zero."""
    if hermitian:
        values, vectors = np.linalg.eigh(x)
        limit = cutoff(np.abs(values).max(-1, initial=0))[..., None]
        factors = np.divide(1, values, where=np.abs(values) > limit, out=np.zeros_like(values))
        return by_rows((vectors * factors[..., None, :]) @ np.swapaxes(vectors, -2, -1).conj())
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    limit = cutoff(s.max(-1, initial=0))[..., None]
    factors = np.divide(1, s, where=s > limit, out=np.zeros_like(s))
    return by_rows((np.swapaxes(vh, -2, -1).conj() * factors[..., None, :]) @ np.swapaxes(u, -2, -1).conj())


_PADE = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
         670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)  # fmt: skip


def matrix_exp(x: Array) -> Array:
    """e^A by Padé approximation of order 13, scaled down and squared up again."""
    if not x.size:
        return np.array(x)
    wide = x.astype(np.result_type(x.dtype, np.float64))
    size = float(np.abs(wide).sum(-2).max())
    squarings = max(0, math.ceil(math.log2(size / 5.371920351148152))) if size > 0 and math.isfinite(size) else 0
    a = wide / 2**squarings
    one = np.broadcast_to(np.eye(x.shape[-1]), a.shape)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    b = _PADE
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    result = np.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        result = result @ result
    return result.astype(x.dtype)


def least_squares(a: Array, b: Array, cutoff: Any, driver: str) -> tuple[Array, Array, Array, Array]:
    """Return the X of least norm that minimises |a X - b|.

    Also return the residuals, the rank and the singular values, as far as LAPACK's driver of that name computes them.
    """
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    limit = cutoff(s.max(-1, initial=0))[..., None]
    solid = s > limit
    factors = np.divide(1, s, where=solid, out=np.zeros_like(s))
    columns = b[..., None] if b.ndim == a.ndim - 1 else b
    turned = np.swapaxes(u, -2, -1).conj() @ columns
    x = np.swapaxes(vh, -2, -1).conj() @ (factors[..., None] * turned)
    rank, empty = solid.sum(-1), np.empty(0, s.dtype)
    rows, width = a.shape[-2:]
    full = rows > width and driver != "gelsy" and bool((rank == width).all())
    residuals = (np.abs(a @ x - columns) ** 2).sum(-2) if full else empty
    values = s if driver in ("gelsd", "gelss") else empty
    x = by_columns(x) if columns is b else x[..., 0]
    return x, residuals, rank if driver != "gels" else np.empty(0, np.int64), values


def lu_factor(x: Array) -> tuple[Array, Array, Array]:
    """Return both triangles in one matrix, the row exchanges, and the permutation matrix P of x = P L U."""
    both, pivots, order = lu(x)
    return by_columns(both), pivots, _permutation(order, x.dtype)


def permutation_of_pivots(pivots: Array, rows: int, dtype: np.dtype[Any]) -> Array:
    """Return the permutation matrix P of row exchanges as LAPACK counts them."""
    order = np.tile(np.arange(rows), (*pivots.shape[:-1], 1))
    for place in np.ndindex(pivots.shape[:-1]):
        row = order[place]
        for k, pivot in enumerate(pivots[place]):
            row[k], row[pivot - 1] = row[pivot - 1], row[k]
    return _permutation(order, dtype)


def _permutation(order: Array, dtype: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(np.swapaxes(np.eye(order.shape[-1], dtype=dtype)[order], -2, -1))


def lu_parts(x: Array) -> tuple[Array, Array, Array]:
    """P, L and U with x = P L U."""
    both, _, order = lu(x)
    k = min(x.shape[-2:])
    lower = np.tril(both[..., :k], -1) + np.eye(x.shape[-2], k, dtype=x.dtype)
    return _permutation(order, x.dtype), by_rows(lower), by_rows(np.triu(both[..., :k, :]))


def first_zero_pivot(x: Array) -> tuple[tuple[int, ...], int] | None:
    """Return the first singular matrix of a stack, and which of its pivots (counted from 1) is zero."""
    return zero_on_diagonal(lu(x)[0])


def zero_on_diagonal(both: Array) -> tuple[tuple[int, ...], int] | None:
    """Return the same for known factors."""
    pivots = np.diagonal(both, axis1=-2, axis2=-1)
    for place in np.ndindex(both.shape[:-2]):
        zeros = np.flatnonzero(pivots[place] == 0)
        if zeros.size:
            return place, int(zeros[0]) + 1
    return None


def first_bad_minor(x: Array, upper: bool) -> tuple[tuple[int, ...], int] | None:
    """Return the first matrix of a stack that is not positive definite, and the order of its first bad minor."""
    if _is_definite(x, upper):
        return None
    for place in np.ndindex(x.shape[:-2]):
        if not _is_definite(x[place], upper):
            minors = range(1, x.shape[-1] + 1)  # once one is not, the larger ones are not either
            return place, 1 + bisect(minors, False, key=lambda order: not _is_definite(x[place][:order, :order], upper))
    return None


def _is_definite(x: Array, upper: bool) -> bool:
    """Whether all matrices of a stack are positive definite."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(x, upper=upper)).all())
    except LinAlgError:
        return False
