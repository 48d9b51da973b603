"""Random matrices with properties that tests of linear algebra need."""

from __future__ import annotations

from typing import Any

from undertow import linalg
from undertow._src.tensor.creation import eye
from undertow._src.types.dtypes import float32
from undertow.random import randn

__all__ = [
    "make_fullrank_matrices_with_distinct_singular_values", "make_symmetric_matrices", "make_symmetric_pd_matrices",
    "random_hermitian_matrix", "random_hermitian_pd_matrix", "random_hermitian_psd_matrix", "random_lowrank_matrix",
    "random_square_matrix_of_rank", "random_symmetric_matrix", "random_symmetric_pd_matrix", "random_symmetric_psd_matrix",
    "random_matrix", "random_matrix_with_scaled_reduction_dim", "random_well_conditioned_matrix",
]  # fmt: skip


def random_symmetric_matrix(size: int, *batches: int, **options: Any) -> Any:
    """Return a symmetric matrix."""
    matrix = randn(*batches, size, size, dtype=options.get("dtype"))
    return (matrix + matrix.mT) / 2


def random_hermitian_matrix(size: int, *batches: int, **options: Any) -> Any:
    """Return a Hermitian matrix."""
    matrix = randn(*batches, size, size, dtype=options.get("dtype"))
    return (matrix + matrix.mH) / 2


def random_symmetric_psd_matrix(size: int, *batches: int, **options: Any) -> Any:
    """Return a symmetric matrix without negative eigenvalues."""
    matrix = randn(*batches, size, size, dtype=options.get("dtype"))
    return matrix @ matrix.mT


def random_hermitian_psd_matrix(size: int, *batches: int, dtype: Any = None, device: Any = None) -> Any:
    """Return a Hermitian matrix without negative eigenvalues."""
    matrix = randn(*batches, size, size, dtype=dtype)
    return matrix @ matrix.mH


def random_symmetric_pd_matrix(size: int, *batches: int, **options: Any) -> Any:
    """Return a symmetric matrix with positive eigenvalues only."""
    return random_symmetric_psd_matrix(size, *batches, **options) + 1e-5 * eye(size, dtype=options.get("dtype"))


def random_hermitian_pd_matrix(size: int, *batches: int, dtype: Any = None, device: Any = None) -> Any:
    """Return a Hermitian matrix with positive eigenvalues only."""
    return random_hermitian_psd_matrix(size, *batches, dtype=dtype) + eye(size, dtype=dtype)


def random_square_matrix_of_rank(size: int, rank: int, **options: Any) -> Any:
    """Return a square matrix of a given rank."""
    left, values, right = linalg.svd(randn(size, size, dtype=options.get("dtype")))
    for place in range(size):
        values[place] = 0 if place >= rank else 1 if values[place] == 0 else values[place]
    return left.matmul(values.diag()).matmul(right)


def random_lowrank_matrix(rank: int, rows: int, columns: int, *batches: int, **options: Any) -> Any:
    """Return a matrix of low rank."""
    dtype = options.get("dtype")
    return randn(*batches, rows, rank, dtype=dtype) @ randn(*batches, rank, columns, dtype=dtype)


def random_matrix(rows: int, columns: int, *batches: int, **options: Any) -> Any:
    """Return a matrix whose singular values are 1, 1/2 … 1/n, or with `singular=True` one whose last one is 0."""
    dtype, device = options.get("dtype"), options.get("device")
    silent, singular = options.get("silent", False), options.get("singular", False)
    if silent and not (rows and columns):
        return randn(*batches, rows, columns, dtype=dtype, device=device)
    left, _, right = linalg.svd(randn(*batches, rows, columns, dtype=dtype, device=device), full_matrices=False)
    count = min(rows, columns)
    values = left.new_tensor([1.0 / (place + 1) for place in range(count)])
    if singular:
        values[count - 1] = 0
        if count > 2:
            values[0] = 0
    return (left * values) @ right


def random_matrix_with_scaled_reduction_dim(rows: int, columns: int, *batches: int, **options: Any) -> Any:
    """Return a matrix for products, scaled so that sums over the reduction dim have magnitude one."""
    dim = options.pop("reduction_dim", -2)
    if dim not in (-1, -2):
        raise ValueError("reduction_dim must be either -1 or -2.")
    return random_matrix(rows, columns, *batches, **options) / (columns if dim == -1 else rows) ** 0.5


def random_well_conditioned_matrix(
    *shape: int, dtype: Any, device: Any = None, mean: float = 1.0, sigma: float = 0.001
) -> Any:
    """Return a matrix whose singular values are close together."""
    left, _, right = linalg.svd(randn(*shape, dtype=dtype), full_matrices=False)
    values = randn(*shape[:-2], min(shape[-2:]), dtype=dtype.to_real() if dtype.is_complex else dtype) * sigma + mean
    return (left * values.to(dtype).unsqueeze(-2)) @ right


def make_fullrank_matrices_with_distinct_singular_values(
    *shape: int, device: Any = None, dtype: Any = float32, requires_grad: bool = False
) -> Any:
    """Return matrices with distinct singular values."""
    left, values, right = linalg.svd(randn(*shape, dtype=dtype), full_matrices=False)
    count = values.shape[-1]
    steps = values.new_tensor([number + 1 for number in range(count)]) / count
    return ((left * steps.to(left.dtype)) @ right).requires_grad_(requires_grad)


def make_symmetric_matrices(*shape: int, device: Any = None, dtype: Any = None) -> Any:
    """Return symmetric matrices."""
    return random_symmetric_matrix(shape[-1], *shape[:-2], dtype=dtype)


def make_symmetric_pd_matrices(*shape: int, device: Any = None, dtype: Any = None) -> Any:
    """Return symmetric positive definite matrices."""
    return random_symmetric_pd_matrix(shape[-1], *shape[:-2], dtype=dtype)
