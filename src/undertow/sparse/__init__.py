"""`torch.sparse`: functions of tensors in the layout `sparse_coo`."""

from __future__ import annotations

import copyreg
from typing import Any

import numpy as np

from undertow._src.base.torch_named import pickled_class
from undertow._src.ops.public import public
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types import dtypes
from undertow.sparse import derivatives as derivatives
from undertow.sparse import functions
from undertow.sparse.coo import SparseTensor, known_places, make, sparse_coo_tensor

__all__ = ["addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "softmax", "spdiags", "sum"]


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """Return the product of two matrices, at least one of them sparse."""
    return functions.mm(mat1, mat2)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """Return `beta * mat + alpha * (mat1 @ mat2)` for a sparse `mat1`."""
    return functions.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """Return the sum of all elements, or the sums along some dims."""
    return functions.total(input, dim, dtype=dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return the softmax over the specified elements; the others count as minus infinity."""
    return _normalised(input, dim, dtype, log=False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return the logarithm of `softmax`."""
    return _normalised(input, dim, dtype, log=True)


def _normalised(input: SparseTensor, dim: int, dtype: Any, log: bool) -> SparseTensor:
    tensor = input.coalesce()
    items = tensor._items if dtype is None else tensor._items.to(dtype)
    rest = np.delete(known_places(tensor), dim % tensor.ndim, axis=0)
    which = (
        wrap(np.unique(rest, axis=1, return_inverse=True)[1].reshape(-1))
        if rest.size
        else wrap(np.zeros(tensor._nnz(), np.int64))
    )
    groups = int(which.max()) + 1 if tensor._nnz() else 0
    highest = items.new_full((groups,), -np.inf).scatter_reduce(0, which, items.detach(), "amax")
    shifted = items - highest[which]
    totals = items.new_zeros(groups).index_add(0, which, shifted.exp())
    values = shifted - totals.log()[which] if log else shifted.exp() / totals[which]
    return make(tensor._places, values, tensor._sizes, coalesced=True)


def spdiags(diagonals: Any, offsets: Any, shape: tuple[int, int], layout: Any = None) -> Any:
    """Return a sparse matrix whose diagonals are the rows of `diagonals`."""
    lines = diagonals if diagonals.ndim == 2 else diagonals.unsqueeze(0)
    places, items = [], []
    for line, offset in zip(lines, offsets.reshape(-1).tolist(), strict=True):
        columns = np.arange(max(offset, 0), min(shape[1], shape[0] + offset, lines.shape[1]))
        places.append(np.stack([columns - offset, columns]))
        items.append(line[wrap(columns)])
    return sparse_coo_tensor(wrap(np.concatenate(places, 1)), functions.join(items), shape)


class check_sparse_tensor_invariants:
    """Store whether new sparse tensors are checked; here only `check_invariants=True` makes a check."""

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable

    @classmethod
    def is_enabled(cls) -> bool:
        return cls._enabled

    @classmethod
    def enable(cls) -> None:
        cls._enabled = True

    @classmethod
    def disable(cls) -> None:
        cls._enabled = False

    def __enter__(self) -> None:
        self.before = type(self)._enabled
        type(self)._enabled = self.state

    def __exit__(self, *exception: object) -> None:
        type(self)._enabled = self.before


class _SparseType(type):
    """The class of the old sparse tensor types, such as `torch.sparse.FloatTensor`."""

    dtype: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], TensorCore):
            return sparse_coo_tensor(args[0], args[1].to(cls.dtype), *args[2:], **kwargs)
        return sparse_coo_tensor(size=args[0] if args and not isinstance(args[0], int) else args, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, SparseTensor) and instance.dtype is cls.dtype


copyreg.pickle(_SparseType, pickled_class)

FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor, LongTensor, IntTensor, ShortTensor, CharTensor, ByteTensor = [
    _SparseType(f"{kind.scalar_name}Tensor", (), {"dtype": kind, "__module__": "torch.sparse", "is_sparse": True})
    for kind in (
        dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.int32, dtypes.int16,
        dtypes.int8, dtypes.uint8,
    )
]  # fmt: skip


def hspmm(mat1: Any, mat2: Any) -> Any:
    """Return the product of a sparse and a dense matrix as a hybrid tensor: sparse rows, dense columns."""
    return functions.to_sparse(functions.mm(mat1, mat2), 1)


@public
def smm(input: Any, mat: Any) -> Any:
    """Return the product of a sparse and a dense matrix as a sparse matrix."""
    return functions.smm(input, mat)


to_sparse = public(functions.to_sparse)
to_sparse_coo = functions.to_sparse
sparse_mask, spmm, dsmm = functions.sparse_mask, functions.mm, functions.mm
hsmm = hspmm
