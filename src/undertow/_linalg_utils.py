"""`torch._linalg_utils`: products with matrices that may be absent, and what packages borrow beside them."""

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
    """Return the dtype to compute with: a matrix's own, or float32 for whole numbers."""
    return A.dtype if A.dtype in (float16, float32, float64) else float32


def matmul(A: Any, B: Any) -> Any:
    """Return a B, where no A is the unit matrix."""
    return B if A is None else product(A, B)


def bform(X: Any, A: Any, Y: Any) -> Any:
    """Xᵀ A Y."""
    return product(X.mT, matmul(A, Y))


def qform(A: Any, S: Any) -> Any:
    """Sᵀ A S."""
    return bform(S, A, S)


def basis(A: Any) -> Any:
    """Orthonormal columns that span what A spans."""
    return linalg_qr(A).Q


def symeig(A: Any, largest: bool | None = False) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of a symmetric matrix, the smallest first, or the largest."""
    values, vectors = linalg_eigh(A, UPLO="U")
    return (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)
