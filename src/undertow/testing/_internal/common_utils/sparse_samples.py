"""Sparse tensors for tests."""

from __future__ import annotations

import random
from typing import Any

from undertow._src.tensor.creation import empty, ones
from undertow._src.types.dtypes import int64
from undertow.random import rand, randn
from undertow.sparse import sparse_coo_tensor
from undertow.testing._creation import make_tensor


class SparseSamples:
    """The part of `TestCase` that makes sparse tensors."""

    def genSparseTensor(
        self, size: Any, sparse_dim: int, nnz: int, is_uncoalesced: bool, device: Any, dtype: Any
    ) -> tuple[Any, Any, Any]:
        """Return a sparse tensor with a number of values, its indices and its values."""
        if not all(length > 0 for length in size[:sparse_dim]) and nnz != 0:
            raise AssertionError("invalid arguments")
        values = make_tensor((nnz, *size[sparse_dim:]), dtype=dtype, device=device, low=-1, high=1)
        places = rand(sparse_dim, nnz, device=device)
        indices = (places * places.new_tensor(list(size[:sparse_dim])).unsqueeze(1)).to(int64)
        if is_uncoalesced:  # half of the values have the indices of the other half
            indices[:, nnz // 2 : 2 * (nnz // 2)] = indices[:, : nnz // 2]
        made = sparse_coo_tensor(indices, values, list(size), dtype=dtype, device=device)
        if not is_uncoalesced:
            made = made.coalesce()
        return made, made._indices().clone(), made._values().clone()

    def safeToDense(self, t: Any) -> Any:
        """Return a sparse tensor as a dense one."""
        return t.coalesce().to_dense() if t.is_sparse else t.to_dense()


def is_coalesced_indices(s: Any) -> bool:
    """Whether the indices of a sparse tensor are sorted and unique."""
    columns = [tuple(column) for column in s._indices().t().tolist()]
    return columns == sorted(set(columns))


def _generate_indices_prefer_all_rows(rows: int, cols: int, num_indices: int) -> Any:
    """Return sorted indices of `num_indices` elements of a matrix that cover as many rows as possible."""
    each, more = divmod(num_indices, rows)
    chosen = []
    for place, row in enumerate(random.sample(range(rows), rows)):
        chosen += [(row, column) for column in random.sample(range(cols), each + (place < more))]
    return empty(0, dtype=int64).new_tensor(sorted(chosen)).reshape(-1, 2)


def random_sparse_matrix(rows: int, columns: int, density: float = 0.01, **kwargs: Any) -> Any:
    """Return a sparse matrix of about this density, without singular values near zero."""
    dtype, device = kwargs.get("dtype"), kwargs.get("device", "cpu")
    count = max(min(rows, columns), int(rows * columns * density))
    indices = ones(2, count, dtype=int64, device=device)
    for place in range(count):
        indices[0, place] = place % rows if place < min(rows, columns) else random.randrange(rows)
        indices[1, place] = place % columns if place < min(rows, columns) else random.randrange(columns)
    values = randn(count, dtype=dtype, device=device)
    values *= values.abs() / values.abs().clamp(min=1e-8)
    return sparse_coo_tensor(indices, values, (rows, columns), device=device)


def random_sparse_pd_matrix(matrix_size: int, density: float = 0.01, **kwargs: Any) -> Any:
    """Return a sparse symmetric matrix with the eigenvalues 1/n, 2/n … 1: a diagonal matrix, rotated in random planes."""
    dtype, device = kwargs.get("dtype"), kwargs.get("device", "cpu")
    matrix = (ones(matrix_size, dtype=dtype, device=device).cumsum(0) / matrix_size).diag()
    while (matrix != 0).sum().item() < density * matrix_size * matrix_size:
        one, other = random.sample(range(matrix_size), 2)
        turn = ones(matrix_size, dtype=dtype, device=device).diag()
        angle = (rand((), dtype=dtype, device=device) * 6.28).cos()
        rest = (1 - angle * angle).sqrt()
        turn[one, one], turn[one, other], turn[other, one], turn[other, other] = angle, rest, -rest, angle
        matrix = turn.t() @ matrix @ turn
    return matrix.to_sparse()
