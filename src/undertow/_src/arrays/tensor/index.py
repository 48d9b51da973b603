"""The index functions of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded."""

from __future__ import annotations

from typing import Any

from undertow._src.engine.apply import apply
from undertow._src.rules import arrange
from undertow._src.rules import index as rules
from undertow._src.arrays.tensor.shape import sum_to_shape, zeros

index = lambda x, *indices: apply(rules.index, x, *indices)
index_backward = lambda g, shape, *indices: apply(rules.index_backward, g, *indices, shape=shape)
index_summed = lambda x, shape, *indices: sum_to_shape(index(x, *indices), shape)
index_put = lambda x, values, *indices, accumulate: apply(rules.index_put, x, values, *indices, accumulate=accumulate)
index_select = lambda x, axis, index: apply(rules.index_select, x, index, dim=axis)
index_add = lambda x, axis, index, source: apply(rules.index_add, x, source, index, dim=axis, alpha=None)
index_copy = lambda x, axis, index, source: apply(rules.index_copy, x, source, index, dim=axis)
index_fill = lambda x, axis, index, value: apply(rules.index_fill, x, index, dim=axis, value=value)
gather = lambda x, axis, index: apply(rules.gather, x, index, dim=axis, sparse_grad=False)
scatter = lambda x, axis, index, source: apply(rules.scatter, x, source, index, dim=axis)
scatter_value = lambda x, axis, index, value: apply(rules.scatter_value, x, index, dim=axis, value=value)
scatter_add = lambda x, axis, index, source: apply(rules.scatter_add, x, source, index, dim=axis)
index_select_backward = lambda g, shape, axis, index: index_add(zeros(shape, g._array.dtype), axis, index, g)
gather_backward = lambda g, shape, axis, index: scatter_add(zeros(shape, g._array.dtype), axis, index, g)


def scatter_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    return apply(rules.scatter_reduce, x, source, index, dim=axis, reduce=reduce, include_self=include_self)


take_flat = lambda x, index: apply(rules.take, x, index)
put_flat = lambda x, index, source, accumulate: apply(rules.put, x, source, index, accumulate=accumulate)
masked_select = lambda x, mask: apply(rules.masked_select, x, mask)
masked_scatter = lambda x, mask, source: apply(rules.masked_scatter, x, source, mask)
masked_fill = lambda x, mask, value: apply(arrange.masked_fill, x, mask, value=value)
