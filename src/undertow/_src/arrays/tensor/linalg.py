"""The linear algebra of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.tensor.core import wrap
from undertow._src.engine.apply import apply
from undertow._src.rules import decompose, factor, linalg
from undertow._src.arrays.numpy.linalg import eye as eye
from undertow._src.arrays.tensor.elementwise import conj
from undertow._src.arrays.tensor.scan import prod_of_others
from undertow._src.arrays.tensor.shape import expand_dims, reshape, swapaxes


def matmul(x: Any, y: Any) -> Any:
    a, b = x._array.ndim, y._array.ndim
    if a == 2 == b:
        return apply(linalg.mm, x, y, flipped=(False, False))
    if a == 3 == b and x._array.shape[0] == y._array.shape[0]:
        return apply(linalg.bmm, x, y, flipped=(False, False))
    if b == 1:
        return apply(linalg.dot if a == 1 else linalg.mv, x, y)
    return apply(linalg.product, x, y)


def addmm(bias: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    return matmul(x, y) * alpha + bias * beta


def cross(x: Any, y: Any, axis: int) -> Any:
    return apply(linalg.linalg_cross, x, y, dim=axis)


def det(x: Any) -> Any:
    return apply(factor.linalg_det, x)


def slogdet(x: Any) -> Any:
    return apply(factor.linalg_slogdet, x)


def inverse(x: Any) -> Any:
    return apply(factor.linalg_inv_ex, x)


def cofactors(x: Any, det: Any) -> Any:
    """Return det(A) A⁻ᵀ; if A is singular, from its SVD, each singular value replaced by the product of the others."""
    if (det._array != 0).all():
        return reshape(det, (*det.shape, 1, 1)) * swapaxes(inverse(x), -2, -1)
    u, s, vh = apply(decompose.linalg_svd, x, full_matrices=False)
    turn = np.linalg.det(u._array) * np.linalg.det(vh._array)
    others = prod_of_others(s, s._array.ndim - 1) * wrap(turn[..., None])
    return matmul(conj(u) * expand_dims(others, others._array.ndim - 1), conj(vh))


def solve(a: Any, b: Any) -> Any:
    return apply(factor.linalg_solve_ex, a, b, left=True, vector=False)


def solve_triangular(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    return apply(factor.linalg_solve_triangular, a, b, upper=upper, left=True, unitriangular=unit)


def cholesky(x: Any, upper: bool) -> Any:
    return apply(factor.linalg_cholesky_ex, x, upper=upper)


def cholesky_solve(b: Any, triangle: Any, upper: bool) -> Any:
    return apply(factor.cholesky_solve, b, triangle, upper=upper)


def pinv(x: Any, cutoff: Any, hermitian: bool) -> Any:
    return apply(decompose.linalg_pinv, x, cutoff=cutoff, hermitian=hermitian)


def matrix_exp(x: Any) -> Any:
    return apply(decompose.linalg_matrix_exp, x)


def qr(x: Any, mode: str) -> Any:
    return apply(decompose.linalg_qr, x, mode=mode)


def geqrf(x: Any) -> Any:
    return apply(decompose.geqrf, x)


def svd(x: Any, full: bool) -> Any:
    return apply(decompose.linalg_svd, x, full_matrices=full)


def eigh(x: Any, lower: bool) -> Any:
    return apply(decompose.linalg_eigh, x, lower=lower)


def eig(x: Any) -> Any:
    return apply(decompose.linalg_eig, x)


def least_squares(a: Any, b: Any, cutoff: Any, driver: str) -> Any:
    return apply(decompose.linalg_lstsq, a, b, cutoff=cutoff, driver=driver)


def lu_factor(x: Any) -> Any:
    return apply(factor.linalg_lu_factor_ex, x)


def lu_parts(x: Any) -> Any:
    return apply(factor.linalg_lu, x)
