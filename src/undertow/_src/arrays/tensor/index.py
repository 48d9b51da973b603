"""The index functions of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded."""

from __future__ import annotations

from typing import Any

from undertow._src.engine.apply import apply
from undertow._src.rules import arrange
from undertow._src.rules import index as rules
from undertow._src.arrays.tensor.shape import sum_to_shape, zeros


def index(x: Any, *indices: Any) -> Any:
    return apply(rules.index, x, *indices)


def index_backward(g: Any, shape: tuple[int, ...], *indices: Any) -> Any:
    return apply(rules.index_backward, g, *indices, shape=shape)


def index_summed(x: Any, shape: tuple[int, ...], *indices: Any) -> Any:
    return sum_to_shape(index(x, *indices), shape)


def index_put(x: Any, values: Any, *indices: Any, accumulate: bool) -> Any:
    return apply(rules.index_put, x, values, *indices, accumulate=accumulate)


def index_select(x: Any, axis: int, index: Any) -> Any:
    return apply(rules.index_select, x, index, dim=axis)


def index_select_backward(g: Any, shape: tuple[int, ...], axis: int, index: Any) -> Any:
    return index_add(zeros(shape, g._array.dtype), axis, index, g)


def gather_backward(g: Any, shape: tuple[int, ...], axis: int, index: Any) -> Any:
    return scatter_add(zeros(shape, g._array.dtype), axis, index, g)


def index_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    return apply(rules.index_add, x, source, index, dim=axis, alpha=None)


def index_copy(x: Any, axis: int, index: Any, source: Any) -> Any:
    return apply(rules.index_copy, x, source, index, dim=axis)


def index_fill(x: Any, axis: int, index: Any, value: Any) -> Any:
    return apply(rules.index_fill, x, index, dim=axis, value=value)


def gather(x: Any, axis: int, index: Any) -> Any:
    return apply(rules.gather, x, index, dim=axis, sparse_grad=False)


def scatter(x: Any, axis: int, index: Any, source: Any) -> Any:
    return apply(rules.scatter, x, source, index, dim=axis)


def scatter_value(x: Any, axis: int, index: Any, value: Any) -> Any:
    return apply(rules.scatter_value, x, index, dim=axis, value=value)


def scatter_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    return apply(rules.scatter_add, x, source, index, dim=axis)


def scatter_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    return apply(rules.scatter_reduce, x, source, index, dim=axis, reduce=reduce, include_self=include_self)


def take_flat(x: Any, index: Any) -> Any:
    return apply(rules.take, x, index)


def put_flat(x: Any, index: Any, source: Any, accumulate: bool) -> Any:
    return apply(rules.put, x, source, index, accumulate=accumulate)


def masked_select(x: Any, mask: Any) -> Any:
    return apply(rules.masked_select, x, mask)


def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    return apply(rules.masked_scatter, x, source, mask)


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return apply(arrange.masked_fill, x, mask, value=value)
