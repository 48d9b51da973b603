"""Public functions that select and write whole slices, and elements by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import checked, values_known
from undertow._src.base.sites import warn_once
from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import (
    as_element,
    as_int,
    broadcast_two,
    check_tensor,
    invalid_combination,
    no_kernel,
    refuse_undetermined,
    scalar_name,
    wrap_dim,
)
from undertow._src.engine.outputs import into, overlaps
from undertow._src.engine.writes import apply_in_place
from undertow._src.ops.named import run
from undertow._src.ops.numbers import as_factor
from undertow._src.ops.public import overloaded, public
from undertow._src.ops.scatter import check_in_range, gather
from undertow._src.ops.shape import reshape_to
from undertow._src.ops.slicing import diagonal_dims
from undertow._src.ops.writing import write_in_place
from undertow._src.rules import index as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import DTYPE_OF

if TYPE_CHECKING:
    from undertow._src.types.aliases import Number
    from undertow._tensor import Tensor

# --- slices of a dim


@public
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the slices of a dim that an index selects."""
    check_tensor(input, "index_select")
    check_tensor(index, "index_select", "index", 3)
    array, picks = input._array, index._array
    if picks.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if picks.dtype not in (np.int64, np.int32):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    dim = wrap_dim(as_int(dim, "index_select", "dim", 2), array.ndim)
    n = array.shape[dim] if array.ndim else 1
    if not array.ndim and picks.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {picks.size} value(s)")
    _check_rows(picks, n)
    if out is None:
        return apply(rules.index_select, input, index, dim=dim)
    return into(out, lambda: apply(rules.index_select, input, index, dim=dim), (input, index), "index_select")


def _slices(name: str, input: Tensor, dim: object, index: Tensor) -> int:
    """Check the common arguments of index_add, index_copy and index_fill, and wrap the dim."""
    check_tensor(input, name.removesuffix("_"))
    check_tensor(index, name.removesuffix("_"), "index", 3)
    dim = wrap_dim(as_int(dim, name.removesuffix("_"), "dim", 2), input._array.ndim)
    if index._array.ndim > 1:
        if name == "index_fill_":
            raise RuntimeError(f"Index has to be a vector/scalar. It has {index._array.ndim} dims.")
        if name == "index_copy_":
            raise IndexError(f"{name}(): Index should have dimension 1 or 0 (got {index._array.ndim})")
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, but got dim: {index._array.ndim} with type: "
            f"{scalar_name(index)} and size: {list(index._array.shape)}"
        )
    return dim


def _check_add(input: Tensor, dim: object, index: Any, source: Any, name: str = "index_add_", scale: Any = None) -> int:
    dim = _slices(name, input, dim, index)
    check_tensor(source, name.removesuffix("_"), "source", 4)
    array, other, picks = input._array, source._array, index._array
    if picks.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index but got: {scalar_name(index)}")
    if array.dtype != other.dtype:
        raise RuntimeError(
            f"{name}(): self ({scalar_name(input)}) and source ({scalar_name(source)}) must have the same scalar type"
        )
    if other.ndim and dim >= other.ndim:
        raise RuntimeError(f"{name}(): Indexing dim {dim} is out of bounds of the source tensor with dim {other.ndim}")
    count = other.shape[dim] if other.ndim else 1
    if picks.size != count:
        raise RuntimeError(
            f"{name}(): Number of indices ({picks.size}) should be equal to source.size(dim): ({count}), for dim: {dim}"
        )
    kept, given = list(array.shape), list(other.shape)
    if kept and given:
        kept.pop(dim), given.pop(dim)
    if kept != given:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(array.shape)} source.shape = {list(other.shape)}"
        )
    n = array.shape[dim] if array.ndim else 1
    if scale == 1 and array.ndim > 1 and dim in (0, array.ndim - 1):  # PyTorch computes these with scatter_add
        check_in_range(picks, n, dim)
    else:
        _check_rows(picks, n)
    return dim


def _check_rows(picks: np.ndarray, n: int) -> None:
    def check(picks: np.ndarray) -> None:
        if picks.size and ((picks < 0) | (picks >= n)).any():
            raise IndexError("index out of range in self")

    checked(check, picks)


@public
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number | complex = 1, out: Tensor | None = None
) -> Tensor:
    """Return a copy with slices of source added to the slices of a dim that an index names."""
    dim = _check_add(input, dim, index, source, scale=alpha)
    scale = None if alpha == 1 else as_factor(alpha, (input, source))

    def compute() -> Tensor:
        return apply(rules.index_add, input, source, index, dim=dim, alpha=scale)

    return compute() if out is None else into(out, compute, (input, index, source), "index_add")


@public
def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number | complex = 1) -> Tensor:
    """Add slices of source to the slices of a dim that an index names."""
    dim = _check_add(self, dim, index, source, scale=alpha)
    scale = None if alpha == 1 else as_factor(alpha, (self, source))
    return apply_in_place(rules.index_add, self, source, index, dim=dim, alpha=scale)


def _check_copy(input: Tensor, dim: object, index: Tensor, source: Tensor) -> int:
    dim = _slices("index_copy_", input, dim, index)
    check_tensor(source, "index_copy", "source", 4)
    array, other, picks = input._array, source._array, index._array
    if picks.dtype != np.int64:
        raise RuntimeError("index_copy_(): Expected a long tensor for index, but got " + scalar_name(index))
    if other.ndim and array.ndim and other.ndim != array.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, they must have equally many dims. Source "
            f"has {other.ndim}, destination {array.ndim}"
        )
    if array.dtype != other.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{scalar_name(input)} and (source) {scalar_name(source)}"
        )
    count = other.shape[dim] if other.ndim else 1
    if picks.size != count:
        raise IndexError(
            f"index_copy_(): Number of indices ({picks.size}) should be equal to source.size(dim) ({count})"
        )
    kept, given = list(array.shape), list(other.shape)
    if kept and given:
        kept.pop(dim), given.pop(dim)
        if kept != given:
            raise RuntimeError(
                "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
                f"{kept} at dimension {dim} and source slice shape: {given} at dimension {dim}."
            )
    check_in_range(picks, array.shape[dim] if array.ndim else 1, dim, "index_copy_(): ", IndexError)
    return dim


@public
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy with the slices of a dim that an index names replaced by slices of source."""
    dim = _check_copy(input, dim, index, source)

    def compute() -> Tensor:
        return apply(rules.index_copy, input, source, index, dim=dim)

    return compute() if out is None else into(out, compute, (input, index, source), "index_copy")


@public
def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Replace the slices of a dim that an index names by slices of source."""
    return apply_in_place(rules.index_copy, self, source, index, dim=_check_copy(self, dim, index, source))


def _check_fill(input: Tensor, dim: object, index: Tensor, value: object) -> tuple[int, Any, Any]:
    dim = _slices("index_fill_", input, dim, index)
    picks = index._array
    if picks.dtype != np.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if isinstance(value, TensorCore):
        if value._array.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._array.ndim} dimension(s)."
            )
    elif isinstance(value, (bool, int, float, complex, np.generic)):
        value = as_element(value, DTYPE_OF[input._array.dtype])
    else:
        raise invalid_combination("index_fill", (dim, index, value))
    n = input._array.shape[dim] if input._array.ndim else 1
    check_in_range(picks, n, dim, "", IndexError, negative=True)
    if picks.size and (not values_known(picks) or picks.min() < 0):
        index = wrap(np.where(picks < 0, picks + n, picks))
    return dim, index, value


@overloaded
def index_fill(input: Tensor, dim: int, index: Tensor, value: Number | complex | Tensor) -> Tensor:
    """Return a copy with a value in the slices of a dim that an index names."""
    dim, index, value = _check_fill(input, dim, index, value)
    if isinstance(value, TensorCore):
        return apply(rules.index_fill_tensor, input, value, index, dim=dim)
    return apply(rules.index_fill, input, index, dim=dim, value=value)


@overloaded
def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Write a value into the slices of a dim that an index names."""
    dim, index, value = _check_fill(self, dim, index, value)
    tensors: tuple[Any, ...]
    if isinstance(value, TensorCore):
        rule, tensors, statics = rules.index_fill_tensor, (value, index), {"dim": dim}
    else:
        rule, tensors, statics = rules.index_fill, (index,), {"dim": dim, "value": value}
    if not overlaps(self._array):
        return apply_in_place(rule, self, *tensors, **statics)

    def write(out: np.ndarray) -> None:
        out[(*[slice(None)] * dim, index._array)] = value._array if isinstance(value, TensorCore) else value

    warning = "Use of index_fill_ on expanded tensors is deprecated. Write to a clone() of the tensor."
    return write_in_place(rule, self, tensors, statics, write, warning)


def _check_reduce(input: Tensor, dim: object, index: object, source: object, reduce: str) -> int:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    dim = _check_add(input, dim, index, source, "index_reduce_")
    warn_once("index_reduce() is in beta and the API may change at any time.")
    if input._array.dtype.kind == "b":
        raise no_kernel("index_func_", input)
    return dim


@public
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a copy with slices of source reduced into the slices of a dim that an index selects."""
    dim = _check_reduce(input, dim, index, source, reduce)

    def compute() -> Tensor:
        return apply(rules.index_reduce, input, source, index, dim=dim, reduce=reduce, include_self=include_self)

    return compute() if out is None else into(out, compute, (input, index, source), "index_reduce")


@public
def index_reduce_(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce slices of source into the slices of a dim that an index selects."""
    dim = _check_reduce(self, dim, index, source, reduce)
    return apply_in_place(rules.index_reduce, self, source, index, dim=dim, reduce=reduce, include_self=include_self)


# --- flat positions


def _check_flat(input: Tensor, index: Tensor, name: str) -> None:
    check_tensor(input, name)
    check_tensor(index, name, "index", 2)
    picks, n = index._array, input._array.size
    if picks.dtype != np.int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {scalar_name(index)}")
    if not values_known(picks):
        return
    outside = (picks < -n) | (picks >= n)
    if outside.any():
        first = picks[outside].reshape(-1)[0]
        raise IndexError(f"out of range: tried to access index {int(first)} on a tensor of {n} elements.")


@public
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return elements by their position in the flattened tensor."""
    _check_flat(input, index, "take")
    if out is None:
        return apply(rules.take, input, index)
    return into(out, lambda: apply(rules.take, input, index), (input, index), "take")


def _check_put(input: Tensor, index: Tensor, source: Tensor) -> None:
    _check_flat(input, index, "put_")
    check_tensor(source, "put_", "source", 3)
    if source._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {scalar_name(input)} and "
            f"source.dtype = {scalar_name(source)}"
        )
    if source._array.size != index._array.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but the source has "
            f"{source._array.size}, the index {index._array.size}"
        )


@public
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy with elements of source at positions in the flattened tensor."""
    _check_put(input, index, source)
    if not accumulate:
        refuse_undetermined("put_")
    return apply(rules.put, input, source, index, accumulate=accumulate)


@public
def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Write elements of source to positions in the flattened tensor."""
    _check_put(self, index, source)
    if not accumulate:
        refuse_undetermined("put_")
    return apply_in_place(rules.put, self, source, index, accumulate=accumulate)


def _from_the_front(index: Tensor, size: int) -> Tensor:
    """Count negative positions from the end; those out of range wrap around."""
    array = index._array
    if not values_known(array) or not array.size or array.min() >= 0:
        return index
    return wrap(np.where(array < 0, array % max(size, 1), array))


@public
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return `gather` with an index that is broadcast over the other dims; without a dim, flat."""
    check_tensor(input, "take_along_dim")
    check_tensor(indices, "take_along_dim", "indices", 2)
    if indices._array.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {scalar_name(indices)}")

    def compute() -> Tensor:
        if dim is None:
            return gather(reshape_to(input, (-1,)), 0, reshape_to(indices, (-1,)))
        have, picks = input._array.shape, indices._array.shape
        if len(have) != len(picks):
            raise RuntimeError(
                "torch.take_along_dim(): input and indices should have the same number of dimensions, but they have "
                f"{len(have)} and {len(picks)}"
            )
        axis = wrap_dim(as_int(dim, "take_along_dim", "dim", 3), len(have))
        wide = broadcast_two((*have[:axis], 1, *have[axis + 1 :]), (*picks[:axis], 1, *picks[axis + 1 :]))
        source = input.expand((*wide[:axis], have[axis], *wide[axis + 1 :])) if have else input
        index = indices.expand((*wide[:axis], picks[axis], *wide[axis + 1 :])) if picks else indices
        source = source if source._array.shape != have else input
        return gather(source, axis, _from_the_front(index, have[axis] if have else 1))

    return compute() if out is None else into(out, compute, (input, indices), "gather")


# --- a part replaced


@public
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy with one index of a dim replaced."""
    shape = input._array.shape
    dim = wrap_dim(as_int(dim, "select_scatter", "dim", 3), len(shape))
    check_fits_part(input.detach().select(dim, index), src)
    return apply(rules.select_scatter, input, src, dim=dim, index=index % shape[dim])


@public
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a copy with a range of a dim replaced."""
    shape = input._array.shape
    if not shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    dim = wrap_dim(as_int(dim, "slice_scatter", "dim", 3), len(shape))
    first, last, stride = slice(start, end, step).indices(shape[dim])
    check_fits_part(wrap(input._array[(slice(None),) * dim + (slice(first, last, stride),)]), src)
    return run("slice_scatter", out, rules.slice_scatter, input, src, dim=dim, start=first, end=last, step=stride)


@public
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a copy with the diagonal of two dims replaced."""
    offset, dim1, dim2 = diagonal_dims(input._array.ndim, offset, dim1, dim2, "diagonal_scatter")
    check_fits_part(input.detach().diagonal(offset, dim1, dim2), src)
    return apply(rules.diagonal_scatter, input, src, offset=offset, dim1=dim1, dim2=dim2)


def check_fits_part(part: Tensor, src: Tensor) -> None:
    """Refuse a source that does not have the shape of the part it replaces."""
    if part._array.shape != src._array.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self: it is "
            f"{list(src._array.shape)}, the slice {list(part._array.shape)}"
        )


class IndexMethods(TensorCore):
    """Picking and placing as methods of a tensor."""

    __slots__ = ()

    index_select, index_add, index_copy, index_fill = index_select, index_add, index_copy, index_fill
    index_add_, index_copy_, index_fill_ = index_add_, index_copy_, index_fill_
    index_reduce, index_reduce_ = index_reduce, index_reduce_
    take, put, put_, take_along_dim = take, put, put_, take_along_dim
    select_scatter, slice_scatter, diagonal_scatter = select_scatter, slice_scatter, diagonal_scatter
