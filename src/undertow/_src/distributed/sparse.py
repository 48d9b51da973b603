"""The all-reduce of sparse tensors: every rank gets the entries of all, and adds them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.ops.join import cat
from undertow._src.tensor.creation import zeros
from undertow._src.tensor.from_data import tensor as new_tensor
from undertow._src.types.dtypes import int64
from undertow.sparse.coo import sparse_coo_tensor


def all_reduce_sparse(grad: Any, group: Any, all_gather: Callable[..., Any]) -> Any:
    """Return the sum over the ranks of a sparse tensor, coalesced; `all_gather` is that of tensors."""
    grad = grad.coalesce()
    size = group.size()
    counts = [zeros(1, dtype=int64) for _ in range(size)]
    all_gather(counts, new_tensor([grad._nnz()], dtype=int64), group=group)
    longest = max(int(count.item()) for count in counts)
    if not longest:
        return grad
    gathered: list[Any] = []
    for part, dim in ((grad.indices(), 1), (grad.values(), 0)):
        shape = list(part.shape)
        missing = longest - shape[dim]
        shape[dim] = missing
        padded = cat([part, zeros(shape, dtype=part.dtype)], dim) if missing else part.contiguous()
        rows = [zeros(padded.shape, dtype=padded.dtype) for _ in range(size)]
        all_gather(rows, padded, group=group)
        gathered.append(cat([row.narrow(dim, 0, int(n.item())) for row, n in zip(rows, counts, strict=True)], dim))
    return sparse_coo_tensor(gathered[0], gathered[1], grad.shape).coalesce()


def sparse_zeros(param: Any) -> Any:
    """Return a sparse tensor of a parameter's shape without entries."""
    return sparse_coo_tensor(zeros((1, 0), dtype=int64), zeros((0, *param.shape[1:]), dtype=param.dtype), param.shape)
