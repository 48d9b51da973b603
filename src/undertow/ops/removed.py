"""Functions that PyTorch took away: they say what to use instead."""

from __future__ import annotations

from typing import Any


def _removed(name: str, signature: str, advice: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"This function was deprecated since version 1.9 and is now removed.{advice}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed; use {signature}."
    return function


solve = _removed(
    "solve", "linalg.solve", " `torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its "
    "arguments reversed and does not return the LU factorization.\n\nX = torch.solve(B, A).solution should be replaced "
    "with:\nX = torch.linalg.solve(A, B)",
)  # fmt: skip
lstsq = _removed(
    "lstsq", "linalg.lstsq", " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.\n`torch.linalg.lstsq` has "
    "reversed arguments and does not return the QR decomposition in the returned tuple (although it returns other "
    "information about the problem).",
)  # fmt: skip
eig = _removed(
    "eig", "linalg.eig", " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real "
    "tensors mimicking complex tensors.\n\nL, _ = torch.eig(A) should be replaced with:\nL_complex = "
    "torch.linalg.eigvals(A)",
)  # fmt: skip
symeig = _removed(
    "symeig", "linalg.eigh", " The default behavior has changed from using the upper triangular portion of the matrix by "
    "default to using the lower triangular portion.\n\nL, V = torch.symeig(A, eigenvectors=True) should be replaced "
    "with:\nL, V = torch.linalg.eigh(A, UPLO='U' if upper else 'L')",
)  # fmt: skip
matrix_rank = _removed(
    "matrix_rank", "linalg.matrix_rank", "\nPlease use the `torch.linalg.matrix_rank` function instead. The parameter "
    "'symmetric' was renamed in `torch.linalg.matrix_rank()` to 'hermitian'.",
)  # fmt: skip
