"""Public decompositions of matrices: QR, singular values, eigenvalues, pseudo-inverses, least squares, exponential."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import LinAlgError

from undertow import return_types
from undertow._src.arrays.device.array import values_known
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.base.errors import _LinAlgError
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import check_tensor, no_kernel
from undertow._src.engine.outputs import into
from undertow._src.ops.named import into_all, run, run_named
from undertow._src.ops.public import public
from undertow._src.ops.shape import transpose
from undertow._src.rules import decompose as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF, FLOATING

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def check_matrices(A: Tensor, name: str, argument: str = "A") -> None:
    """Refuse what is not a (stack of) matrices."""
    if A._array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def check_square(A: Tensor, name: str) -> None:
    check_matrices(A, name)
    rows, columns = A._array.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {rows} by {columns} matrices")


def check_inexact(A: Tensor, name: str, kernel: str) -> None:
    """Refuse integers, and half precision, which LAPACK lacks."""
    kind = DTYPE_OF[A._array.dtype]
    if kind.category < FLOATING:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {kind.scalar_name}")
    if kind.opmath is not kind:
        if kernel:
            raise no_kernel(kernel, A)
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {kind.scalar_name}")


def in_batch(place: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return a matrix's position in a stack, as errors name it."""
    return f"(Batch element {int(np.ravel_multi_index(place, shape[:-2]))}): " if place else ""


# --- QR

_MODES = ("reduced", "complete", "r")


def _qr(A: Tensor, mode: str) -> tuple[Tensor, ...]:
    if mode not in _MODES:
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    check_matrices(A, "linalg.qr")
    check_inexact(A, "linalg.qr", "geqrf_cpu")
    return apply(rules.linalg_qr, A, mode=mode)


@public
def linalg_qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> Any:
    """Q with orthonormal columns and upper triangular R, whose product is A."""
    check_tensor(A, "linalg_qr", "A")
    if out is None:
        return return_types.linalg_qr(_qr(A, mode))
    return into_all(return_types.linalg_qr, "linalg_qr", out, lambda: _qr(A, mode), (A,))


@public
def qr(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """Q with orthonormal columns and upper triangular R, whose product is the input."""
    check_tensor(input, "qr")
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr.\nThe new "
        "function has mode='reduced' for some=True, and 'complete' for False."
    )
    mode = "reduced" if some else "complete"
    if out is None:
        return return_types.qr(_qr(input, mode))
    return into_all(return_types.qr, "qr", out, lambda: _qr(input, mode), (input,))


# --- singular values


def _svd(A: Tensor, full_matrices: bool) -> tuple[Tensor, ...]:
    check_matrices(A, "linalg.svd")
    check_inexact(A, "linalg.svd", "linalg_svd_cpu")
    try:
        return apply(rules.linalg_svd, A, full_matrices=bool(full_matrices))
    except LinAlgError:
        raise _LinAlgError(
            "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."
        ) from None


@public
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None) -> Any:
    """U, S and Vh with A = U diag(S) Vh; full_matrices completes U and Vh to square ones."""
    check_tensor(A, "linalg_svd", "A")
    _check_driver(driver)
    if out is None:
        return return_types.linalg_svd(_svd(A, full_matrices))
    return into_all(return_types.linalg_svd, "linalg_svd", out, lambda: _svd(A, full_matrices), (A,))


def _check_driver(driver: object) -> None:
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs.")


@public
def linalg_svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return the singular values, largest first."""
    check_tensor(A, "linalg_svdvals", "A")
    _check_driver(driver)
    compute = lambda: _svd(A, False)[1]
    return compute() if out is None else into(out, compute, (A,), "_linalg_svd")


@public
def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """U, S and V with input = U diag(S) Vᴴ."""
    check_tensor(input, "svd")

    def compute() -> Any:
        U, S, Vh = _svd(input, not some and compute_uv)
        if compute_uv:
            V = transpose(Vh, -2, -1)
            return U, S, V.conj() if Vh._array.dtype.kind == "c" else V
        rows, columns = input._array.shape[-2:]
        batch, kind = input._array.shape[:-2], input._array.dtype
        return wrap(np.zeros((*batch, rows, rows), kind)), S, wrap(np.zeros((*batch, columns, columns), kind))

    if out is None:
        return return_types.svd(compute())
    return into_all(return_types.svd, "svd", out, compute, (input,))


# --- eigenvalues


def _eigh(A: Tensor, UPLO: str) -> tuple[Tensor, ...]:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    check_square(A, "linalg.eigh")
    kind = DTYPE_OF[A._array.dtype]
    if kind.category < FLOATING or kind.opmath is not kind:
        raise no_kernel("linalg_eigh_cpu", A)
    try:
        return apply(rules.linalg_eigh, A, lower=UPLO.upper() == "L")
    except LinAlgError:
        raise _LinAlgError(
            "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned, or by too many "
            "repeated eigenvalues."
        ) from None


@public
def linalg_eigh(input: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:
    """Return the eigenvalues, in order, and eigenvectors of symmetric (Hermitian) matrices, of which one half is read."""
    check_tensor(input, "linalg_eigh")
    if out is None:
        return return_types.linalg_eigh(_eigh(input, UPLO))
    return into_all(return_types.linalg_eigh, "linalg_eigh", out, lambda: _eigh(input, UPLO), (input,))


@public
def linalg_eigvalsh(input: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """Return the eigenvalues of symmetric (Hermitian) matrices, in order."""
    check_tensor(input, "linalg_eigvalsh")
    compute = lambda: _eigh(input, UPLO)[0]
    return compute() if out is None else into(out, compute, (input,), "_linalg_eigh")


def _eig(A: Tensor) -> Any:
    kind = DTYPE_OF[A._array.dtype]
    if kind.category < FLOATING:
        kind.to_complex()
    check_square(A, "linalg.eig")
    check_inexact(A, "linalg.eig", "linalg_eig_cpu")
    if values_known(A._array) and not np.isfinite(A._array).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    return apply(rules.linalg_eig, A)


@public
def linalg_eig(input: Tensor, *, out: Any = None) -> Any:
    """Return the eigenvalues and eigenvectors of square matrices, as complex numbers."""
    check_tensor(input, "linalg_eig")
    if out is None:
        return return_types.linalg_eig(_eig(input))
    return into_all(return_types.linalg_eig, "linalg_eig", out, lambda: _eig(input), (input,))


@public
def linalg_eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the eigenvalues of square matrices, as complex numbers."""
    check_tensor(input, "linalg_eigvals")
    compute = lambda: _eig(input)[0]
    return compute() if out is None else into(out, compute, (input,), "linalg_eigvals")


# --- pseudo-inverses, ranks and least squares


def _number(value: object) -> Any:
    return value._array if isinstance(value, TensorCore) else value


def cutoff_of(A: Tensor, atol: object, rtol: object) -> Callable[..., Any]:
    """Return the largest singular value that counts as zero, as a function of the largest of all."""
    absolute = 0.0 if atol is None else _number(atol)
    if rtol is None:
        eps = float(np.finfo(A._array.dtype).eps)
        relative: Any = max(A._array.shape[-2:]) * eps
        if atol is not None:
            relative = np.where(np.asarray(absolute) > 0, 0.0, relative)
    else:
        relative = _number(rtol)
    return lambda largest: namespace_of([largest]).maximum(relative * largest, absolute)


@public
def linalg_pinv(
    input: Tensor, rcond: float | Tensor | None = None, hermitian: bool = False, *, atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the pseudo-inverse (Moore-Penrose); small singular values count as zero."""
    check_tensor(input, "linalg_pinv")
    kind = DTYPE_OF[input._array.dtype]
    if input._array.ndim < 2 or kind.category < FLOATING or kind.opmath is not kind:
        raise RuntimeError(
            f"linalg.pinv({kind.scalar_name}{{{list(input._array.shape)}}}): expected a tensor with 2 or more dims, "
            "real or complex, in single or double precision"
        )
    cutoff = cutoff_of(input, atol, rtol if rtol is not None else rcond)
    return run("linalg_pinv", out, rules.linalg_pinv, input, cutoff=cutoff, hermitian=hermitian)


@public
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the pseudo-inverse (Moore-Penrose)."""
    return linalg_pinv(input, rcond)


@public
def linalg_matrix_rank(
    input: Tensor, tol: float | Tensor | None = None, hermitian: bool = False, *, atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """How many singular values do not count as zero."""
    check_tensor(input, "linalg_matrix_rank")
    check_matrices(input, "torch.linalg.matrix_rank", "input")
    if input._array.dtype.kind in "biu":
        raise RuntimeError("This function doesn't handle types other than float and double")
    cutoff = cutoff_of(input, atol, rtol) if tol is None else cutoff_of(input, tol, 0.0)

    def compute() -> Any:
        array = input._array
        values = np.abs(np.linalg.eigvalsh(array)) if hermitian else np.linalg.svd(array, compute_uv=False)
        limit = cutoff(values.max(-1, initial=0))[..., None]
        return wrap((values > limit).sum(-1))

    return compute() if out is None else into(out, compute, (input,), "linalg_matrix_rank")


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@public
def linalg_lstsq(
    input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None,
    out: tuple[Tensor, ...] | None = None,
) -> Any:  # fmt: skip
    """Return the X with the least |A X - b|, and residuals, rank and singular values as far as a driver has them."""
    check_tensor(input, "linalg_lstsq")
    check_tensor(b, "linalg_lstsq", "b", 2)
    if input._array.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if b._array.ndim < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if not 0 <= input._array.ndim - b._array.ndim <= 1:
        raise RuntimeError(
            "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim(), by at most 1; they are "
            f"{input._array.ndim} and {b._array.ndim}"
        )
    one, two = DTYPE_OF[input._array.dtype], DTYPE_OF[b._array.dtype]
    if one is not two:
        raise RuntimeError(
            "torch.linalg.lstsq: Expected input and other to have the same dtype; they are of "
            f"{one.scalar_name} and {two.scalar_name}"
        )
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = b._array.ndim == input._array.ndim - 1 and b._array.shape == input._array.shape[:-1]
    if b._array.ndim == input._array.ndim - 1 and not vector:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-1)")
    if not vector and input._array.shape[-2] != b._array.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    statics = {"cutoff": cutoff_of(input, None, rcond), "driver": driver or "gelsy"}
    return run_named(return_types.linalg_lstsq, "linalg_lstsq", out, rules.linalg_lstsq, input, b, **statics)


# --- exponential


@public
def linalg_matrix_exp(input: Tensor) -> Tensor:
    """e to the power of square matrices."""
    check_tensor(input, "linalg_matrix_exp")
    check_inexact(input, "linalg.matrix_exp", "linalg_matrix_exp")
    check_square(input, "linalg.matrix_exp")
    return apply(rules.linalg_matrix_exp, input)


class DecompositionMethods:
    """Decompositions as methods of a tensor."""

    __slots__ = ()

    qr, svd, pinverse, matrix_exp = qr, svd, pinverse, linalg_matrix_exp
