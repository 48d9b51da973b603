"""How functions of the vocabulary run on all rows of a batch at once: mostly with one more axis in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.arrays.batched.array import BatchedArray
from undertow._src.arrays.batched.namespace import RULES, BatchedNamespace, Function, Rule


def rule(names: str) -> Callable[[Rule], Rule]:
    """Register how functions of these names run on whole arrays: rule(namespace, function, *args, **kwargs)."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def _later(axis: Any) -> Any:
    """Return an axis, or several, of one row as an axis of the whole."""
    if isinstance(axis, (tuple, list)):
        return tuple(map(_later, axis))
    return axis + 1 if axis >= 0 else axis


def _all_of(x: BatchedArray) -> tuple[int, ...]:
    return tuple(range(1, x.ndim + 1))


# --- shapes


@rule("alias copy contiguous in_rows cast astype")
def unchanged(xp: BatchedNamespace, function: Function, x: Any, *args: Any) -> Any:
    return xp.batched(function(x.raw, *args))


@rule("tril triu")
def of_matrices(xp: BatchedNamespace, function: Function, x: Any, k: int = 0) -> Any:
    return xp.batched(function(x.raw, k))


@rule("reshape")
def reshape(xp: BatchedNamespace, function: Function, x: Any, size: Any) -> Any:
    size = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if -1 in size and 0 in (*size, *x.shape):
        return NotImplemented
    return xp.batched(function(x.raw, (xp.size, *size)))


@rule("broadcast_to")
def broadcast_to(xp: BatchedNamespace, function: Function, x: Any, size: Any) -> Any:
    return xp.batched(function(xp.raised(x, len(size)), (xp.size, *size)))


@rule("sum_to_shape")
def sum_to_shape(xp: BatchedNamespace, function: Function, x: Any, size: Any) -> Any:
    lead = x.ndim - len(size)
    summed = function(x.raw, (xp.size, *[1] * lead, *size))
    return xp.batched(xp.inner.reshape(summed, (xp.size, *size)) if lead else summed)


@rule("transpose")
def transpose(xp: BatchedNamespace, function: Function, x: Any, axes: Any = None) -> Any:
    axes = range(x.ndim)[::-1] if axes is None else [axis % x.ndim for axis in axes]
    return xp.batched(function(x.raw, (0, *[axis + 1 for axis in axes])))


@rule("swapaxes")
def swapaxes(xp: BatchedNamespace, function: Function, x: Any, axis1: int, axis2: int) -> Any:
    return xp.batched(function(x.raw, _later(axis1), _later(axis2))) if x.ndim else x


@rule("squeeze")
def squeeze(xp: BatchedNamespace, function: Function, x: Any, axis: Any = None) -> Any:
    axes = tuple([place for place, n in enumerate(x.shape) if n == 1]) if axis is None else axis
    return xp.batched(function(x.raw, _later(axes)))


def _along(parameters: tuple[str, ...]) -> Rule:
    """Return the rule of a function with these parameters after the array; some of them are axes."""

    def run(xp: BatchedNamespace, function: Function, x: Any, *args: Any, **kwargs: Any) -> Any:
        if _has_rows(args) or (not x.ndim and parameters != ("axis",)):  # a number has no axis, or one
            return NotImplemented
        given = dict(zip(parameters, args)) | kwargs
        for name in [each for each in parameters if each.startswith("axis")]:
            given[name] = _later(_FIRST.get(name, tuple(range(x.ndim))) if given.get(name) is None else given[name])
        return xp.batched(function(x.raw, *[given[each] for each in parameters if each in given]))

    return run


_FIRST = {"axis1": 0, "axis2": 1}  # of a diagonal, where none are given
RULES.update(
    expand_dims=_along(("axis",)),
    select=_along(("axis", "index")),
    slice_along=_along(("axis", "start", "stop", "step")),
    diagonal=_along(("offset", "axis1", "axis2")),
    windows=_along(("axis", "size", "step")),
    roll=_along(("shift", "axis")),
    rot90=_along(("k", "axis")),
    diag_embed=_along(("offset", "axis1", "axis2")),
    index_select=_along(("axis", "index")),
    fft_c2c=_along(("axis", "norm", "forward")),
    fft_r2c=_along(("axis", "norm", "onesided")),
    fft_c2r=_along(("axis", "norm", "last")),
    flip=_along(("axis",)),
)


@rule("select_backward slice_backward windows_backward index_select_backward")
def among_zeros(xp: BatchedNamespace, function: Function, g: Any, shape: Any, axis: int, *args: Any) -> Any:
    return xp.batched(function(g.raw, (xp.size, *shape), _later(axis), *args)) if shape else NotImplemented


@rule("diagonal_backward")
def on_diagonal(
    xp: BatchedNamespace, function: Function, g: Any, shape: Any, offset: int, axis1: int, axis2: int
) -> Any:
    return xp.batched(function(g.raw, (xp.size, *shape), offset, _later(axis1), _later(axis2)))


@rule("concatenate stack")
def joined(xp: BatchedNamespace, function: Function, arrays: Any, axis: int = 0) -> Any:
    return xp.batched(function([xp.whole(x) for x in arrays], _later(axis)))


@rule("tile")
def tile(xp: BatchedNamespace, function: Function, x: Any, repeats: Any) -> Any:
    return xp.batched(function(xp.raised(x, len(repeats)), (1, *repeats)))


@rule("pad")
def pad(xp: BatchedNamespace, function: Function, x: Any, widths: Any, value: Any) -> Any:
    return xp.batched(function(x.raw, ((0, 0), *widths), value))


@rule("zeros_like ones_like full_like")
def constant_like(xp: BatchedNamespace, function: Function, x: Any, *value: Any) -> Any:
    """Return what is the same for every row."""
    return function(xp.inner.zeros(x.shape, xp.dtype_of(x)), *value)


# --- reductions


@rule("sum mean max min any all sum_of_squares logsumexp")
def reduced(xp: BatchedNamespace, function: Function, x: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
    return xp.batched(function(x.raw, _all_of(x) if axis is None else _later(axis), *args, **kwargs))


@rule("cumsum cumprod logcumsumexp softmax log_softmax")
def along_axis(xp: BatchedNamespace, function: Function, x: Any, axis: int, *args: Any, **kwargs: Any) -> Any:
    return xp.batched(function(x.raw, _later(axis), *args, **kwargs)) if x.ndim else NotImplemented


@rule("softmax_grad log_softmax_grad")
def softmax_gradient(xp: BatchedNamespace, function: Function, g: Any, y: Any, axis: int) -> Any:
    return xp.batched(function(xp.whole(g), xp.whole(y), _later(axis))) if g.ndim else NotImplemented


@rule("channel_sums")
def channel_sums(xp: BatchedNamespace, function: Function, x: Any) -> Any:
    return xp.batched(xp.inner.sum(x.raw, axis=tuple([axis for axis in _all_of(x) if axis != 2])))


# --- indices


@rule("index")
def index(xp: BatchedNamespace, function: Function, x: Any, *indices: Any) -> Any:
    if _has_rows(indices) or not _side_by_side(indices):
        return NotImplemented
    return xp.batched(function(x.raw, None, *indices))


@rule("index_backward")
def index_backward(xp: BatchedNamespace, function: Function, g: Any, shape: Any, *indices: Any) -> Any:
    if not _side_by_side(indices):
        return NotImplemented
    return xp.batched(function(g.raw, (xp.size, *shape), None, *indices))


def _side_by_side(indices: Any) -> bool:
    """Return whether the axes of an index stay where they are: else they come first, before that of the batch."""
    places = [place for place, each in enumerate(indices) if each is not None]
    return bool(places) and places[-1] - places[0] == len(places) - 1


@rule("gather")
def gather(xp: BatchedNamespace, function: Function, x: Any, axis: int, index: Any) -> Any:
    return xp.batched(function(xp.whole(x), _later(axis), xp.whole(index))) if index.ndim else NotImplemented


@rule("gather_backward")
def gather_backward(xp: BatchedNamespace, function: Function, g: Any, shape: Any, axis: int, index: Any) -> Any:
    if not index.ndim:
        return NotImplemented
    return xp.batched(function(g.raw, (xp.size, *shape), _later(axis), xp.whole(index)))


@rule("masked_fill")
def masked_fill(xp: BatchedNamespace, function: Function, x: Any, mask: Any, value: Any) -> Any:
    if type(x) is not BatchedArray or type(mask) is BatchedArray or type(value) is BatchedArray or mask.ndim > x.ndim:
        return NotImplemented
    return xp.batched(function(x.raw, xp.inner.broadcast_to(mask, tuple(x.raw.shape)), value))


# --- products


@rule("matmul")
def matmul(xp: BatchedNamespace, function: Function, left: Any, right: Any) -> Any:
    """Multiply stacks of matrices: a vector is a matrix of one row or column, the batch one more axis of the stack."""
    if type(right) is not BatchedArray and right.ndim <= 2 and left.ndim:
        inner = xp.inner  # one product for all rows
        flat = function(inner.reshape(left.raw, (-1, left.shape[-1])), right) if left.size else None
        if flat is None:
            return NotImplemented
        return xp.batched(inner.reshape(flat, (xp.size, *left.shape[:-1], *tuple(right.shape)[1:])))
    if type(left) is not BatchedArray and left.ndim == 2 and right.ndim == 1:
        return xp.batched(function(right.raw, xp.inner.swapaxes(left, 0, 1)))
    ndim = max(left.ndim, right.ndim, 2)
    whole = [_as_matrices(xp, left, -2, ndim), _as_matrices(xp, right, -1, ndim)]
    found = function(*whole)
    found = xp.inner.squeeze(found, -2) if left.ndim == 1 else found
    return xp.batched(xp.inner.squeeze(found, -1) if right.ndim == 1 else found)


def _as_matrices(xp: BatchedNamespace, x: Any, missing: int, ndim: int) -> Any:
    if x.ndim == 1:
        x = xp.expand_dims(x, missing)
    return xp.raised(x, ndim) if type(x) is BatchedArray else x


@rule("addmm")
def addmm(xp: BatchedNamespace, function: Function, bias: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    product = xp.matmul(x, y) if alpha == 1 else xp.matmul(x, y) * alpha
    return product if beta == 0 else product + (bias if beta == 1 else bias * beta)


# --- layers: the rows join the examples of a batch


@rule("conv_input_grad")
def conv_input_grad(xp: BatchedNamespace, function: Function, g: Any, w: Any, shape: Any, *args: Any) -> Any:
    if type(w) is BatchedArray:
        return NotImplemented
    count = xp.size * shape[0]
    found = function(_merged(xp, g), w, (count, *shape[1:]), *args)
    return xp.batched(xp.inner.reshape(found, (xp.size, *shape)))


@rule("avg_pool_grad adaptive_avg_pool_grad")
def of_planes(xp: BatchedNamespace, function: Function, g: Any, *args: Any) -> Any:
    return _split(xp, function(_merged(xp, g), *args), g) if g.ndim > 2 else NotImplemented


@rule("resize resize_adjoint")
def resized(xp: BatchedNamespace, function: Function, x: Any, taps: Any, axis: int) -> Any:
    return xp.batched(function(x.raw, taps, _later(axis)))


@rule("max_pool_grad add_to_planes put_in_planes take_from_planes")
def at_places(xp: BatchedNamespace, function: Function, g: Any, indices: Any, *args: Any) -> Any:
    if type(indices) is BatchedArray or g.ndim < 3 or g.ndim != indices.ndim:
        return NotImplemented
    places = xp.inner.reshape(
        np.ascontiguousarray(np.broadcast_to(indices, (xp.size, *indices.shape)))
        if type(indices) is np.ndarray
        else xp.whole(indices),
        (xp.size * indices.shape[0], *indices.shape[1:]),
    )
    return _split(xp, function(_merged(xp, g), places, *args), g)


def _merged(xp: BatchedNamespace, x: BatchedArray) -> Any:
    return xp.inner.reshape(x.raw, (xp.size * x.shape[0], *x.shape[1:]))


def _split(xp: BatchedNamespace, found: Any, x: BatchedArray) -> Any:
    return xp.batched(xp.inner.reshape(found, (xp.size, x.shape[0], *tuple(found.shape)[1:])))


def _has_rows(values: Any) -> bool:
    return any(type(each) is BatchedArray for each in values)
