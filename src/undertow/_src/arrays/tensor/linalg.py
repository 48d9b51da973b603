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
        return linalg.mm.run(x, y, flipped=(False, False))
    if a == 3 == b and x._array.shape[0] == y._array.shape[0]:
        return apply(linalg.bmm, x, y, flipped=(False, False))
    if b == 1:
        return apply(linalg.dot if a == 1 else linalg.mv, x, y)
    return apply(linalg.product, x, y)


addmm = lambda bias, x, y, beta, alpha: matmul(x, y) * alpha + bias * beta
cross = lambda x, y, axis: apply(linalg.linalg_cross, x, y, dim=axis)
det = lambda x: apply(factor.linalg_det, x)
slogdet = lambda x: apply(factor.linalg_slogdet, x)
inverse = lambda x: apply(factor.linalg_inv_ex, x)


def cofactors(x: Any, det: Any) -> Any:
    """Return det(A) A⁻ᵀ; if A is singular, from its SVD, each singular value replaced by the product of the others."""
    if (det._array != 0).all():
        return reshape(det, (*det.shape, 1, 1)) * swapaxes(inverse(x), -2, -1)
    u, s, vh = apply(decompose.linalg_svd, x, full_matrices=False)
    turn = np.linalg.det(u._array) * np.linalg.det(vh._array)
    others = prod_of_others(s, s._array.ndim - 1) * wrap(turn[..., None])
    return matmul(conj(u) * expand_dims(others, others._array.ndim - 1), conj(vh))


solve = lambda a, b: apply(factor.linalg_solve_ex, a, b, left=True, vector=False)


def solve_triangular(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    return apply(factor.linalg_solve_triangular, a, b, upper=upper, left=True, unitriangular=unit)


cholesky = lambda x, upper: apply(factor.linalg_cholesky_ex, x, upper=upper)
cholesky_solve = lambda b, triangle, upper: apply(factor.cholesky_solve, b, triangle, upper=upper)
pinv = lambda x, cutoff, hermitian: apply(decompose.linalg_pinv, x, cutoff=cutoff, hermitian=hermitian)
matrix_exp = lambda x: apply(decompose.linalg_matrix_exp, x)
qr = lambda x, mode: apply(decompose.linalg_qr, x, mode=mode)
geqrf = lambda x: apply(decompose.geqrf, x)
svd = lambda x, full: apply(decompose.linalg_svd, x, full_matrices=full)
eigh = lambda x, lower: apply(decompose.linalg_eigh, x, lower=lower)
eig = lambda x: apply(decompose.linalg_eig, x)
least_squares = lambda a, b, cutoff, driver: apply(decompose.linalg_lstsq, a, b, cutoff=cutoff, driver=driver)
lu_factor = lambda x: apply(factor.linalg_lu_factor_ex, x)
lu_parts = lambda x: apply(factor.linalg_lu, x)
