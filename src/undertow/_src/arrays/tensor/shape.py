"""The shape functions of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.tensor.core import wrap
from undertow._src.engine.apply import apply
from undertow._src.rules import arrange, convert, reduce
from undertow._src.rules import shape as rules

Axes = tuple[int, ...]


alias = lambda x: apply(convert.alias, x)


def reshape(x: Any, size: Any) -> Any:
    array = x._array
    if type(size) is int or -1 in size:
        size = array.reshape(size).shape
    if array.shape == size:
        return x
    if array.flags.c_contiguous:
        return apply(rules.view, x, size=size)
    return apply(rules.unsafe_view, contiguous(x), size=size)


broadcast_to = lambda x, size: x if x._array.shape == size else rules.expand.run(x, size=size)


def sum_to_shape(x: Any, size: Axes) -> Any:
    have = x._array.shape
    if have == size:
        return x
    if not size:
        return apply(reduce.sum_all, x, dtype=None)
    lead = len(have) - len(size)
    axes = tuple([axis for axis, n in enumerate(have) if axis < lead or (size[axis - lead] == 1 and n != 1)])
    return reshape(apply(reduce.sum, x, dim=axes, keepdim=True, dtype=None) if axes else x, size)


def transpose(x: Any, axes: Axes | None = None) -> Any:
    ndim = x._array.ndim
    if axes is None and ndim == 2:
        return rules.t.run(x)
    axes = tuple(range(ndim - 1, -1, -1)) if axes is None else tuple([axis % ndim for axis in axes])
    return apply(rules.permute, x, dims=axes)


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    ndim = x._array.ndim or 1
    return rules.transpose.run(x, dim0=axis1 % ndim, dim1=axis2 % ndim)


expand_dims = lambda x, axis: apply(rules.unsqueeze, x, dim=axis % (x._array.ndim + 1))


def squeeze(x: Any, axis: Any = None) -> Any:
    shape = x._array.shape
    if axis is None:
        axis = tuple([each for each, n in enumerate(shape) if n == 1])
        return apply(rules.squeeze, x, axes=axis)
    axes = tuple([each % len(shape) for each in ((axis,) if type(axis) is int else axis)])
    if len(axes) == 1:
        return apply(rules.squeeze_dim, x, dim=axes[0], axes=axes)
    return apply(rules.squeeze_dims, x, dim=axes, axes=axes)


select = lambda x, axis, index: apply(rules.select, x, dim=axis, index=index)
slice_along = lambda x, axis, start, stop, step=1: apply(rules.slice, x, dim=axis, start=start, end=stop, step=step)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    ndim = x._array.ndim
    return apply(rules.diagonal, x, offset=offset, dim1=axis1 % ndim, dim2=axis2 % ndim)


windows = lambda x, axis, size, step: apply(rules.unfold, x, dimension=axis, size=size, step=step)


def as_strided(x: Any, size: Axes, stride: Axes, offset: int, layout: Any) -> Any:
    return apply(rules.as_strided, x, size=size, stride=stride, storage_offset=offset, layout=layout)


def as_strided_backward(g: Any, size: Axes, stride: Axes, offset: int, layout: Any) -> Any:
    return apply(rules.as_strided_backward, g, size=size, stride=stride, storage_offset=offset, layout=layout)


select_backward = lambda g, shape, axis, index: apply(rules.select_backward, g, shape=shape, dim=axis, index=index)


def slice_backward(g: Any, shape: Axes, axis: int, start: int, stop: int, step: int) -> Any:
    return apply(rules.slice_backward, g, shape=shape, dim=axis, start=start, end=stop, step=step)


def diagonal_backward(g: Any, shape: Axes, offset: int, axis1: int, axis2: int) -> Any:
    return apply(rules.diagonal_backward, g, shape=shape, offset=offset, dim1=axis1, dim2=axis2)


def windows_backward(g: Any, shape: Axes, axis: int, size: int, step: int) -> Any:
    return apply(rules.unfold_backward, g, shape=shape, dimension=axis, size=size, step=step)


# --- copies


copy = lambda x: apply(arrange.clone, x)
contiguous = lambda x: apply(arrange.contiguous, x)


def in_rows(x: Any) -> Any:
    return x  # the memory order of a gradient does not matter


astype = lambda x, dtype: x if x._array.dtype == dtype else apply(convert.to_copy, x, dtype=dtype)
cast = lambda x, dtype: apply(convert.to_copy, x, dtype=dtype)
concatenate = lambda tensors, axis=0: apply(arrange.cat, *tensors, dim=axis % tensors[0]._array.ndim, dtype=None)
stack = lambda tensors, axis=0: apply(arrange.stack, *tensors, dim=axis % (tensors[0]._array.ndim + 1), dtype=None)
tile = lambda x, repeats: apply(arrange.repeat, x, repeats=repeats)


def flip(x: Any, axis: Any = None) -> Any:
    ndim = x._array.ndim
    axes = range(ndim) if axis is None else (axis,) if type(axis) is int else axis
    return apply(arrange.flip, x, dims=tuple([each % ndim for each in axes]))


def roll(x: Any, shift: Any, axis: Any) -> Any:
    ndim = x._array.ndim
    shifts, axes = ((shift,), (axis,)) if type(shift) is int else (shift, axis)
    return apply(arrange.roll, x, shifts=shifts, dims=tuple([each % ndim for each in axes]))


rot90 = lambda x, k, axes: apply(arrange.rot90, x, k=k, dims=axes)
tril = lambda x, k=0: apply(arrange.tril, x, diagonal=k)
triu = lambda x, k=0: apply(arrange.triu, x, diagonal=k)
diag_embed = lambda x, offset, axis1, axis2: apply(arrange.diag_embed, x, offset=offset, dim1=axis1, dim2=axis2)
pad = lambda x, widths, value: apply(arrange.constant_pad_nd, x, pad=(), value=value, widths=widths)


# --- constants


zeros = lambda size, dtype=None: wrap(np.zeros(size, dtype))
ones = lambda size, dtype=None: wrap(np.ones(size, dtype))
zeros_like = lambda x: wrap(np.zeros(x._array.shape, x._array.dtype))
ones_like = lambda x: wrap(np.ones(x._array.shape, x._array.dtype))
full_like = lambda x, value: wrap(np.full(x._array.shape, value, x._array.dtype))
