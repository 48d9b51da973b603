"""`torch._linalg_utils`: products with optional matrices, and other functions that packages import."""

from __future__ import annotations

from typing import Any

from undertow._src.ops import removed
from undertow._src.ops.decompositions import linalg_eigh, linalg_qr
from undertow._src.ops.matmul import matmul as product
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import float16, float32, float64

matrix_rank, solve, lstsq, eig, _symeig = (
    removed.matrix_rank, removed.solve, removed.lstsq, removed.eig, removed.symeig,
)  # fmt: skip


def is_sparse(A: Any) -> bool:
    """Whether a tensor is sparse."""
    if not isinstance(A, TensorCore):
        raise TypeError(f"expected Tensor but got {type(A)}")
    return A.layout.__repr__() == "torch.sparse_coo"


def get_floating_dtype(A: Any) -> Any:
    """Return the dtype to compute in: that of the matrix if it is floating point, otherwise float32."""
    return A.dtype if A.dtype in (float16, float32, float64) else float32


def matmul(A: Any, B: Any) -> Any:
    """Return A B; if A is None, B."""
    return B if A is None else product(A, B)


def bform(X: Any, A: Any, Y: Any) -> Any:
    """Return Xᵀ A Y."""
    return product(X.mT, matmul(A, Y))


def qform(A: Any, S: Any) -> Any:
    """Return Sᵀ A S."""
    return bform(S, A, S)


def basis(A: Any) -> Any:
    """Return an orthonormal basis of the columns of A."""
    return linalg_qr(A).Q


def symeig(A: Any, largest: bool | None = False) -> tuple[Any, Any]:
    """Return the eigenvalues and eigenvectors of a symmetric matrix, smallest first unless `largest`."""
    values, vectors = linalg_eigh(A, UPLO="U")
    return (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)
