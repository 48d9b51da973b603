"""Functions that PyTorch removed: their errors say what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _removed(name: str, signature: str, advice: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"This function was deprecated since version 1.9 and is now removed.{advice}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed; use {signature}."
    return function


solve = _removed(
    "solve", "linalg.solve", " `torch.solve` is deprecated in favor of `torch.linalg.solve`, which takes the "
    "matrix first and gives the solution alone: torch.linalg.solve(A, B) for torch.solve(B, A).solution.",
)  # fmt: skip
lstsq = _removed(
    "lstsq", "linalg.lstsq", " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, which takes "
    "the matrix first and gives rank and residuals in place of the QR decomposition.",
)  # fmt: skip
eig = _removed(
    "eig", "linalg.eig", " `torch.linalg.eig` and `torch.linalg.eigvals` give complex numbers as such, not as pairs of "
    "real ones.",
)  # fmt: skip
symeig = _removed(
    "symeig", "linalg.eigh", " `torch.linalg.eigh` reads the lower triangle of the matrix unless UPLO='U' is given; "
    "torch.symeig read the upper one.",
)  # fmt: skip
matrix_rank = _removed(
    "matrix_rank", "linalg.matrix_rank", "\nPlease use the `torch.linalg.matrix_rank` function instead, where "
    "'symmetric' is called 'hermitian'.",
)  # fmt: skip
