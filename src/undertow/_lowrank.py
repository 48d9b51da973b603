"""`torch._lowrank`: leading singular vectors by random projection (Halko, Martinsson and Tropp, 2009), and `lobpcg`."""

from __future__ import annotations

from typing import Any

from undertow._src.ops.broadcasting import broadcast_to
from undertow._src.ops.decompositions import linalg_eigh, linalg_qr, linalg_svd
from undertow._src.ops.matmul import matmul
from undertow._src.ops.public import public
from undertow._src.ops.shape import adjoint, transpose
from undertow._src.ops.triangular import linalg_cholesky, linalg_solve_triangular
from undertow.random import randn

__all__ = ["pca_lowrank", "svd_lowrank"]


def _adjoint(x: Any) -> Any:
    return adjoint(x) if x._array.dtype.kind == "c" else transpose(x, -2, -1)


def _times(A: Any, M: Any, x: Any) -> Any:
    """Return (A − M) x without computing A − M."""
    return matmul(A, x) if M is None else matmul(A, x) - matmul(M, x)


def get_approximate_basis(A: Any, q: int, niter: int | None = 2, M: Any = None) -> Any:
    """Return an approximate orthonormal basis of A − M, by random projection and `niter` power iterations."""
    back, M_back = _adjoint(A), None if M is None else _adjoint(M)
    drawn = randn(A._array.shape[-1], q, dtype=A.dtype)
    Q = linalg_qr(_times(A, M, drawn)).Q
    for _ in range(2 if niter is None else niter):
        Q = linalg_qr(_times(back, M_back, Q)).Q
        Q = linalg_qr(_times(A, M, Q)).Q
    return Q


@public
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple[Any, Any, Any]:
    """Return U, S and V for approximately the q largest singular values of A (or A − M), by random projection."""
    rows, columns = A._array.shape[-2:]
    M = None if M is None else broadcast_to(M, A.size())
    flipped = rows < columns
    if flipped:
        A, M = _adjoint(A), None if M is None else _adjoint(M)
    Q = get_approximate_basis(A, 6 if q is None else q, niter, M)
    across = _adjoint(Q)
    projected = matmul(across, A) if M is None else matmul(across, A) - matmul(across, M)
    U, S, Vh = linalg_svd(projected, full_matrices=False)
    V, U = _adjoint(Vh), matmul(Q, U)
    return (V, S, U) if flipped else (U, S, V)


@public
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Any, Any, Any]:
    """Return principal components: `svd_lowrank` of A minus the mean of its rows."""
    few = min(A.shape[-2:])
    if q is None:
        q = min(6, few)
    elif not 0 <= q <= few:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={few}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter)


def lobpcg(
    A: Any, k: int | None = None, B: Any = None, X: Any = None, n: int | None = None, iK: Any = None,
    niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None,
    tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the k largest (or smallest) eigenvalues of A x = λ B x, and their vectors.

    PyTorch iterates from an initial guess; here all are computed directly, so the guess is not used.
    """
    dense = A.to_dense()
    count = k or n or (1 if X is None else X.shape[-1])
    if dense.shape[-1] < 3 * count:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={dense.shape[-1]}) is below three times the "
            f"number of requested eigenpairs (={count})"
        )
    if B is None:
        values, vectors = linalg_eigh(dense)
    else:
        half = linalg_cholesky(B.to_dense())
        inner = linalg_solve_triangular(half, _adjoint(linalg_solve_triangular(half, dense, upper=False)), upper=False)
        values, vectors = linalg_eigh(inner)
        vectors = linalg_solve_triangular(_adjoint(half), vectors, upper=True)
    if largest is None or largest:
        return values.flip(-1)[..., :count], vectors.flip(-1)[..., :count]
    return values[..., :count], vectors[..., :count]


_svd_lowrank = svd_lowrank
