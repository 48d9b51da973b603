"""Functions that change the dims of sparse tensors, take parts of them or join them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from undertow._src.ops.join import cat as join
from undertow._src.tensor.core import wrap
from undertow._src.tensor.creation import zeros
from undertow.sparse.coo import SparseTensor, function, known_places, make


@function("permute")
def permute(input: SparseTensor, *dims: Any) -> Any:
    """Reorder the dims; dense dims stay after the sparse ones."""
    order = [dim % input.ndim for dim in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
    count = input.sparse_dim()
    if sorted(order[:count]) != list(range(count)):
        raise RuntimeError("transpositions between sparse and dense dimensions are not allowed.")
    items = input._items.permute(0, *[dim - count + 1 for dim in order[count:]])
    return make(input._places[order[:count]], items, [input._sizes[dim] for dim in order], coalesced=False)


@function("t transpose swapaxes swapdims")
def transpose(input: SparseTensor, dim0: int = 0, dim1: int = 1) -> Any:
    """Exchange two sparse dims."""
    order = list(range(input.ndim))
    one, other = order[dim0], order[dim1]
    if max(one, other) >= input.sparse_dim():
        raise NotImplementedError("undertow transposes only the sparse dims of sparse tensors")
    order[one], order[other] = other, one
    rows = order[: input.sparse_dim()]
    return make(input._places[rows], input._items, [input._sizes[d] for d in order], coalesced=False)


@function("unsqueeze")
def unsqueeze(input: SparseTensor, dim: int) -> Any:
    """Insert a dim of size one."""
    place = dim % (input.ndim + 1)
    row = zeros((1, input._nnz()), dtype=input._places.dtype)
    rows = join([input._places[:place], row, input._places[place:]])
    return make(rows, input._items, [*input._sizes[:place], 1, *input._sizes[place:]], input._coalesced)


@function("select")
def select(input: SparseTensor, dim: int, index: int) -> Any:
    """Return one slice along a dim."""
    dim %= input.ndim
    index = int(index) % input._sizes[dim]
    kept = wrap(np.nonzero(known_places(input)[dim] == index)[0])
    rest = [place for place in range(input.sparse_dim()) if place != dim]
    items = input._items[kept]
    if not rest:
        return items.sum(0)
    sizes = [size for place, size in enumerate(input._sizes) if place != dim]
    return make(input._places[rest][:, kept], items, sizes, input._coalesced)


@function("_getitem __getitem__")
def getitem(self: SparseTensor, key: Any) -> Any:
    """Index by integers and full slices."""
    keys = key if isinstance(key, tuple) else (key,)
    dim = 0
    for each in keys:
        if isinstance(each, int):
            self = select(self, dim, each)
        elif each == slice(None):
            dim += 1
        else:
            raise NotImplementedError("undertow indexes sparse tensors only by integers and full slices")
    return self


@function("index_select")
def index_select(input: SparseTensor, dim: int, index: Any) -> Any:
    """Return some of the slices along a dim."""
    tensor = input.coalesce()
    wanted, have = index._array.reshape(-1), known_places(tensor)[dim]
    new, old = np.nonzero(wanted[:, None] == have[None, :])
    places = known_places(tensor)[:, old].copy()
    places[dim] = new
    sizes = list(tensor._sizes)
    sizes[dim] = wanted.size
    return make(wrap(places), tensor._items[wrap(old)], sizes, coalesced=dim == 0)


@function("cat concat concatenate")
def cat(tensors: Sequence[SparseTensor], dim: int = 0) -> Any:
    """Concatenate along a dim."""
    dim %= tensors[0].ndim
    places, start = [], 0
    for tensor in tensors:
        shift = np.zeros((tensor.sparse_dim(), 1), np.int64)
        shift[dim] = start
        places.append(tensor._places + wrap(shift))
        start += tensor._sizes[dim]
    sizes = list(tensors[0]._sizes)
    sizes[dim] = start
    return make(join(places, 1), join([tensor._items for tensor in tensors]), sizes)


@function("stack")
def stack(tensors: Sequence[SparseTensor], dim: int = 0) -> Any:
    """Stack along a new dim."""
    return cat([unsqueeze(tensor, dim) for tensor in tensors], dim)


@function("reshape")
def reshape(input: SparseTensor, *shape: Any) -> Any:
    """Raise, as PyTorch does."""
    raise RuntimeError("reshape is not implemented for sparse tensors")
