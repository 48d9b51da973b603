"""Public functions on sparse tensors, computed on their indices and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.engine.apply import place_operands
from undertow._src.ops.index import index_add
from undertow._src.ops.join import cat as join
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.tensor.creation import zeros
from undertow._src.types.sizes import Size
from undertow.sparse.coo import FUNCTIONS, SparseTensor, function, known_places, make, sparse_coo_tensor
from undertow.sparse.dims import select, transpose


def _with_items(tensor: SparseTensor, items: Any, coalesced: bool | None = None) -> SparseTensor:
    return make(tensor._places, items, tensor._sizes, tensor._coalesced if coalesced is None else coalesced)


# --- functions of the values


def _of_values(name: str, linear: bool) -> None:
    """Register a function that maps zero to zero, computed on the values; unless it is linear, coalesce first."""

    def run(input: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        tensor = input if linear else input.coalesce()
        return _with_items(tensor, getattr(tensor._items, name)(*args, **kwargs))

    FUNCTIONS[name] = run


for _name in (
    "neg negative clone detach float double half bfloat16 int long short bool cfloat cdouble char byte to conj deg2rad "
    "rad2deg cpu"
).split():
    _of_values(_name, linear=_name != "bool")
for _name in (
    "abs absolute sqrt square relu sin sinh tan tanh asin asinh atan atanh arcsin arctan expm1 log1p sign sgn ceil floor "
    "round trunc erf erfinv isnan isinf isneginf isposinf nan_to_num signbit pow leaky_relu"
).split():
    _of_values(_name, linear=False)


@function("mul multiply __mul__ __rmul__")
def mul(input: Any, other: Any) -> Any:
    """Multiply elementwise. A dense factor is read at the indices of the sparse one."""
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if isinstance(other, SparseTensor):
        return _times_sparse(input, other.coalesce())
    if isinstance(other, TensorCore) and other.ndim:
        wide = other.expand(input._sizes)
        return _with_items(input, input._items * wide[tuple(input._places)])
    return _with_items(input, input._items * other)


def _times_sparse(one: SparseTensor, other: SparseTensor) -> SparseTensor:
    """Multiply two sparse tensors elementwise; only indices that both have are kept."""
    mine, theirs = _flat_places(one), _flat_places(other)
    where = np.minimum(np.searchsorted(theirs, mine), max(theirs.size - 1, 0))
    kept = np.nonzero(theirs[where] == mine)[0] if theirs.size else np.zeros(0, np.int64)
    items = one._items[wrap(kept)] * other._items[wrap(where[kept])]
    return make(one._places[:, wrap(kept)], items, one._sizes, one._coalesced)


@function("div divide true_divide __truediv__")
def div(input: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    """Divide by a number. Other divisors are refused, because 0 / 0 is not 0."""
    if isinstance(other, SparseTensor) or not isinstance(input, SparseTensor) or getattr(other, "ndim", None):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor")
    tensor = input if rounding_mode is None else input.coalesce()
    return _with_items(tensor, tensor._items.div(other, rounding_mode=rounding_mode))


@function("add __add__ __radd__")
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Add two sparse tensors, or a sparse tensor to a dense one."""
    if not isinstance(input, SparseTensor):
        return input + to_dense(other) * alpha if alpha != 1 else input + to_dense(other)
    if not isinstance(other, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if input._sizes != other._sizes:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same sizes, but self has {_by(input)} while other has {_by(other)}"
        )
    scaled = other._items if alpha == 1 else other._items * alpha
    both = input._coalesced and other._coalesced
    if not (input._items.is_contiguous() and other._items.is_contiguous()):
        return make(join([input._places, other._places], 1), join([input._items, scaled]), input._sizes)
    if np.array_equal(known_places(input), known_places(other)):
        return _with_items(input, input._items + scaled, both)
    mine, theirs = _merged(input, other)
    count = max([-1, *mine[-1:], *theirs[-1:]]) + 1
    places = np.empty((input.sparse_dim(), count), np.int64)
    places[:, mine], places[:, theirs] = known_places(input), known_places(other)
    total = zeros((count, *input._items.shape[1:]), dtype=(input._items[:0] + scaled[:0]).dtype)
    total = index_add(total, 0, wrap(mine), input._items.to(total.dtype))
    return make(wrap(places), index_add(total, 0, wrap(theirs), scaled.to(total.dtype)), input._sizes, both)


def _merged(one: SparseTensor, other: SparseTensor) -> tuple[Any, Any]:
    """Return the positions of each tensor's elements after merging both: the smaller index first, equal ones joined.

    The merge takes the tensors in their order, also if they are not sorted, as PyTorch does.
    """
    ones, others = (_flat_places(tensor) for tensor in (one, other))
    if one._coalesced and other._coalesced:
        together = np.union1d(ones, others)
        return np.searchsorted(together, ones), np.searchsorted(together, others)
    mine, theirs, next_one, next_other, count = [], [], 0, 0, 0
    left, right = ones.tolist(), others.tolist()
    while next_one < len(left) or next_other < len(right):
        ahead = next_other == len(right) or (next_one < len(left) and left[next_one] < right[next_other])
        equal = not ahead and next_one < len(left) and left[next_one] == right[next_other]
        if ahead or equal:
            mine.append(count)
            next_one += 1
        if not ahead:
            theirs.append(count)
            next_other += 1
        count += 1
    return np.array(mine, np.int64), np.array(theirs, np.int64)


def _flat_places(tensor: SparseTensor) -> Any:
    """Return the flat index of each element."""
    return _flat(known_places(tensor), tensor._sizes)


def _flat(places: Any, sizes: Any) -> Any:
    flat: Any = np.zeros(places.shape[1:], np.int64)
    for row, size in zip(places, sizes):
        flat = flat * size + row
    return flat


def _by(tensor: SparseTensor) -> str:
    return f"[{', '.join(map(str, tensor._sizes))}]"


@function("sub subtract __sub__ __rsub__")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Subtract a sparse tensor."""
    return add(input, other, alpha=-alpha)


# --- to dense and back


@function("to_dense")
def to_dense(self: SparseTensor, dtype: Any = None, *, masked_grad: Any = None) -> Any:
    """Return the dense tensor, with zeros for unspecified elements."""
    sizes, n_sparse = self._sizes, self.sparse_dim()
    sparse, dense = sizes[:n_sparse], sizes[n_sparse:]
    items = self._items if dtype is None else self._items.to(dtype)
    place_operands((self._places,))
    flat = _flat(self._places._array, sizes)
    count = int(np.prod(sparse)) if sparse else 1
    return index_add(zeros((count, *dense), dtype=items.dtype), 0, wrap(flat), items).reshape(sizes)


@function("to_sparse to_sparse_coo coalesce_")
def to_sparse(
    self: Any, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> Any:
    """Return a sparse tensor of the elements that are not zero."""
    if isinstance(self, SparseTensor):
        return self
    dims = self.ndim if sparse_dim is None or not isinstance(sparse_dim, int) else sparse_dim
    if not 0 <= dims <= self.ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.ndim}] range, but {dims} is given"
        )
    array = self._array
    kept = array.reshape(*array.shape[:dims], -1).astype(bool).any(-1) if dims < array.ndim else array != 0
    places = (
        wrap(np.stack(np.nonzero(kept)).astype(np.int64)) if dims else wrap(np.zeros((0, int(kept.any())), np.int64))
    )
    items = self[tuple(places)] if dims else self[None]
    return make(places, items, self.shape, coalesced=True)


def sparse_mask(self: Any, mask: SparseTensor) -> Any:
    """Return the elements at the indices of a sparse mask."""
    dense = to_dense(self) if isinstance(self, SparseTensor) else self
    return _with_items(mask, dense[tuple(mask._places)])


FUNCTIONS["sparse_mask"] = sparse_mask


@function("zeros_like")
def zeros_like(input: SparseTensor, **options: Any) -> Any:
    """Return a sparse tensor of the same size without elements."""
    return make(
        input._places[:, :0], zeros((0, *input._items.shape[1:]), dtype=options.get("dtype") or input.dtype), input._sizes,
        coalesced=True,
    )  # fmt: skip


# --- creation


@function("empty_like new_zeros new_empty")
def without_elements(input: SparseTensor, *size: Any, **options: Any) -> Any:
    """Return a sparse tensor of a size, without elements."""
    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size or input._sizes
    return make(
        zeros((len(sizes), 0), dtype=input._places.dtype), zeros((0,), dtype=options.get("dtype") or input.dtype), sizes
    )


@function("new")
def new(input: SparseTensor, *given: Any) -> Any:
    """Return a sparse tensor from indices, values and optionally a size, or one of a size without elements."""
    if given and isinstance(given[0], TensorCore):
        return sparse_coo_tensor(*given)
    if given and not isinstance(given[0], (int, Size)):
        raise TypeError("SparseTensor.new(sequence) only accepts sizes. Please use torch.sparse_coo_tensor()")
    return without_elements(input, *(given or (0,)))


# --- sums


@function("sum")
def total(input: SparseTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return the sum of all elements, or the sums along some dims."""
    tensor = input if dtype is None else _with_items(input, input._items.to(dtype))
    dims = range(tensor.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {place % tensor.ndim for place in dims}
    rest = [place for place in range(tensor.sparse_dim()) if place not in gone]
    inside = [place - tensor.sparse_dim() + 1 for place in gone if place >= tensor.sparse_dim()]
    items = tensor._items.sum(inside) if inside else tensor._items
    sizes = [size for place, size in enumerate(tensor._sizes) if place not in gone]
    if not rest:
        return items.sum(0)
    return make(tensor._places[rest], items, sizes).coalesce()


@function("norm")
def norm(input: SparseTensor, p: Any = "fro", *args: Any, **kwargs: Any) -> Any:
    """Return the norm of the values."""
    return input.coalesce()._items.norm(p, *args, **kwargs)


@function("any")
def any_of(input: SparseTensor) -> Any:
    """Return whether any element is not zero."""
    return input.coalesce()._items.any()


# --- products


def _product(sparse: SparseTensor, dense: Any) -> Any:
    """Return a sparse matrix times a dense one: for each element, add a scaled row of the second to a row of the result."""
    if sparse._sizes[1] != dense.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({sparse._sizes[0]}x{sparse._sizes[1]} and "
            f"{dense.shape[0]}x{dense.shape[1]})"
        )
    rows, columns = sparse._places
    parts = dense[columns] * sparse._items.unsqueeze(1)
    return index_add(zeros((sparse._sizes[0], dense.shape[1]), dtype=parts.dtype), 0, rows, parts)


@function("mm matmul __matmul__ __rmatmul__ spmm")
def mm(input: Any, mat2: Any, reduce: str | None = None) -> Any:
    """Return the product of two matrices, at least one of them sparse; it is sparse if both are."""
    if isinstance(input, SparseTensor) and isinstance(mat2, SparseTensor):
        return to_sparse(_product(input, to_dense(mat2)))
    if isinstance(input, SparseTensor):
        if mat2.ndim == 1:
            return _product(input, mat2.unsqueeze(1)).squeeze(1)
        return _product(input, mat2)
    return _product(transpose(mat2), input.t()).t()


@function("smm")
def smm(input: SparseTensor, mat: Any) -> Any:
    """Return the product of a sparse and a dense matrix as a sparse matrix with whole rows, zeros included."""
    rows = np.unique(input._places._array[0])
    dense = _product(input, mat)
    columns = np.arange(dense.shape[1])
    places = np.stack([np.repeat(rows, columns.size), np.tile(columns, rows.size)])
    return make(wrap(places), dense[wrap(rows)].reshape(-1), Size(dense.shape))


@function("mv")
def mv(input: SparseTensor, vec: Any) -> Any:
    """Return a sparse matrix times a vector."""
    return _product(input, vec.unsqueeze(1)).squeeze(1)


@function("bmm")
def bmm(input: SparseTensor, mat2: Any) -> Any:
    """Return the products of a batch of sparse matrices and a batch of dense ones."""
    return join([_product(select(input, 0, place), mat2[place]).unsqueeze(0) for place in range(input._sizes[0])])


@function("addmm sspaddmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return `beta * input + alpha * (mat1 @ mat2)`."""
    return input * beta + mm(mat1, mat2) * alpha


# --- writes


def _take_over(self: SparseTensor, result: SparseTensor) -> Any:
    if self.requires_grad and self.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    self._places, self._items, self._coalesced = result._places, result._items, result._coalesced
    return self


@function("add_ __iadd__")
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Add in place; the target may be dense."""
    if isinstance(self, SparseTensor):
        return _take_over(self, add(self, other, alpha=alpha))
    return self.add_(to_dense(other), alpha=alpha)


@function("sub_ __isub__")
def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Subtract in place."""
    return add_(self, other, alpha=-alpha)


@function("mul_ __imul__")
def mul_(self: SparseTensor, other: Any) -> Any:
    """Multiply in place."""
    return _take_over(self, mul(self, other))


@function("div_ __itruediv__")
def div_(self: SparseTensor, other: Any) -> Any:
    """Divide in place."""
    return _take_over(self, div(self, other))


@function("resize_as_")
def resize_as_(self: SparseTensor, the_template: SparseTensor) -> Any:
    """Take the size of another tensor in place; only a tensor without elements can change its size."""
    if self._nnz() and self._sizes != the_template._sizes:
        raise NotImplementedError("undertow resizes only sparse tensors without elements")
    if not self._nnz():
        _take_over(self, zeros_like(the_template, dtype=self.dtype))
        self._sizes = the_template._sizes
    return self


@function("zero_")
def zero_(self: SparseTensor) -> Any:
    """Remove all elements in place."""
    return _take_over(self, zeros_like(self))


@function("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy the elements of another tensor in place."""
    if isinstance(self, SparseTensor):
        return _take_over(self, to_sparse(src))
    return self.copy_(to_dense(src))
