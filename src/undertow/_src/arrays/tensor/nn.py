"""The layers of the vocabulary on undertow's own tensors, for a backward pass that is itself recorded.

Linear maps come in pairs, a rule and its adjoint; the rest is composed of the vocabulary's other functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.tensor.core import wrap
from undertow._src.engine.apply import apply
from undertow._src.rules import conv as conv_rules
from undertow._src.rules import embedding as embedding_rules
from undertow._src.rules import index as index_rules
from undertow._src.rules import loss as loss_rules
from undertow._src.rules import pool as pool_rules
from undertow._src.rules import resize as resize_rules
from undertow._src.arrays.numpy import embedding as numpy_embedding
from undertow._src.arrays.namespaces import namespace_of
from undertow._src.arrays.numpy.pool import windows_are_disjoint, pool_counts
from undertow._src.arrays.tensor.index import gather_backward

Sizes = tuple[int, ...]


# --- convolution


def conv(x: Any, w: Any, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, bias: Any = None) -> Any:
    return apply(
        conv_rules.convolution, x, w, bias, stride=stride, padding=padding, dilation=dilation, transposed=False,
        output_padding=(0,) * len(stride), groups=groups,
    )  # fmt: skip


def conv_input_grad(g: Any, w: Any, shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Any:
    return apply(
        conv_rules.conv_input_grad, g, w, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def conv_weight_grad(g: Any, x: Any, shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Any:
    return apply(
        conv_rules.conv_weight_grad, g, x, shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


channel_sums = lambda x: apply(conv_rules.channel_sums, x)


def unfold(x: Any, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Any:
    return apply(conv_rules.im2col, x, kernel_size=kernel, dilation=dilation, padding=padding, stride=stride)


def fold(x: Any, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Any:
    return apply(
        conv_rules.col2im, x, output_size=size, kernel_size=kernel, dilation=dilation, padding=padding, stride=stride
    )


# --- pooling


def max_pool(x: Any, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool) -> Any:
    return apply(
        pool_rules.max_pool_with_indices[len(kernel)], x, kernel_size=kernel, stride=stride, padding=padding,
        dilation=dilation, ceil_mode=ceil_mode,
    )  # fmt: skip


def max_pool_grad(
    g: Any, indices: Any, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> Any:
    return add_to_planes(g, indices, size, windows_are_disjoint(kernel, stride, dilation))


adaptive_max_pool = lambda x, counts: apply(pool_rules.adaptive_max_pool[len(counts)], x, output_size=counts)
put_in_planes = lambda values, indices, size: apply(pool_rules.max_unpool[len(size)], values, indices, output_size=size)


def add_to_planes(x: Any, indices: Any, size: Sizes, distinct: bool = False) -> Any:
    return apply(pool_rules.add_to_planes, x, indices, size=size, distinct=distinct)


take_from_planes = lambda x, indices, rank: apply(pool_rules.take_from_planes, x, indices, rank=rank)


def avg_pool(
    x: Any, kernel: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool, count_include_pad: bool, divisor: int | None
) -> Any:
    return apply(
        pool_rules.avg_pool[max(2, len(kernel))], x, kernel_size=kernel, stride=stride, padding=padding,
        ceil_mode=ceil_mode, count_include_pad=count_include_pad, divisor_override=divisor,
    )  # fmt: skip


def avg_pool_grad(
    g: Any, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, count_include_pad: bool, divisor: int | None
) -> Any:
    counts = tuple(g.shape[g.ndim - len(size) :])
    ceil_mode = counts != pool_counts(size, kernel, stride, padding, (1,) * len(size))
    return apply(
        pool_rules.avg_pool_grad, g, size=size, kernel_size=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, divisor_override=divisor,
    )  # fmt: skip


adaptive_avg_pool = lambda x, counts: apply(pool_rules.adaptive_avg_pool[max(2, len(counts))], x, output_size=counts)
adaptive_avg_pool_grad = lambda g, size: apply(pool_rules.adaptive_avg_pool_grad, g, size=size)


# --- losses


def class_loss(x: Any, target: Any, weight: Any, ignore_index: int, reduction: int) -> tuple[Any, ...]:
    loss = apply(loss_rules.nll_loss, x, target, weight, reduction=reduction, ignore_index=ignore_index)
    return loss, None, None, None


def class_loss_grad(g: Any, index: Any, slopes: Any, shape: Sizes) -> Any:
    axis = 1 if len(shape) > 1 else 0
    values = wrap(slopes._array) * g
    size = (*values.shape[:axis], 1, *values.shape[axis:])
    index = wrap(index._array.astype(np.int64, copy=False).reshape(size))
    return put_along(values.reshape(size), axis, index, shape)


def class_weights(target: Any, weight: Any, ignore_index: int, dtype: Any) -> tuple[Any, Any]:
    given = None if weight is None else weight._array
    index, weights = namespace_of([target._array]).class_weights(target._array, given, ignore_index, dtype)
    return wrap(index), wrap(weights)


def labels(target: Any, dtype: Any) -> tuple[Any, ...]:
    return tuple([wrap(part) for part in namespace_of([target._array]).labels(target._array, dtype)])


def put_along(values: Any, axis: int, index: Any, shape: Sizes) -> Any:
    return apply(index_rules.scatter, wrap(np.zeros(shape, values._array.dtype)), values, index, dim=axis)


def ctc_loss(log_probs: Any, targets: Any, input_lengths: Sizes, target_lengths: Sizes, blank: int) -> tuple[Any, Any]:
    given = log_probs._array, targets._array
    loss, alpha = namespace_of(given).ctc_loss(*given, input_lengths, target_lengths, blank)
    return wrap(loss), wrap(alpha)


def ctc_loss_grad(
    g: Any, log_probs: Any, targets: Any, loss: Any, alpha: Any, input_lengths: Sizes, target_lengths: Sizes,
    blank: int, zero_infinity: bool,
) -> Any:  # fmt: skip
    return apply(
        loss_rules.ctc_loss_grad, g, log_probs, targets, loss.detach(), alpha.detach(), input_lengths=input_lengths,
        target_lengths=target_lengths, blank=blank, zero_infinity=zero_infinity,
    )  # fmt: skip


# --- rows of tables


take_rows = lambda x, index: apply(embedding_rules.take_rows, x, index)
add_rows = lambda rows, index, count: apply(embedding_rules.add_rows, rows, index, count=count)


def embedding_grad(g: Any, index: Any, count: int, padding: int, by_frequency: bool) -> Any:
    return apply(
        embedding_rules.embedding_grad, g, index, num_weights=count, padding_idx=padding,
        scale_grad_by_freq=by_frequency,
    )  # fmt: skip


def sparse_embedding_grad(g: Any, index: Any, count: int, padding: int) -> Any:
    if type(g._array) is not np.ndarray:  # sparse tensors hold only NumPy arrays
        return embedding_grad(g, index, count, padding, False)
    rows, flat = g.reshape(-1, g.shape[-1]), index._array.reshape(-1)
    if padding >= 0:
        kept = np.flatnonzero(flat != padding)
        rows, flat = rows[wrap(kept)], flat[kept]
    return numpy_embedding.sparse_gradient(flat[None].astype(np.int64), rows, (count, g.shape[-1]))


def sparse_gather_grad(g: Any, shape: Sizes, axis: int, index: Any) -> Any:
    if type(g._array) is not np.ndarray:
        return gather_backward(g, shape, axis, index)
    places = numpy_embedding.sparse_gather_grad(g._array, shape, axis, index._array)._places._array
    return numpy_embedding.sparse_gradient(places, g.reshape(-1), shape)


def bag_max(x: Any, index: Any, bags: Any, scale: Any, count: int) -> tuple[Any, Any]:
    return apply(embedding_rules.bag_max, x, index, bags, scale, count=count), None


bag_max_grad = lambda g, chosen, shape: apply(embedding_rules.bag_max_grad, g, chosen, shape=shape)
bag_max_take = lambda x, chosen: apply(embedding_rules.bag_max_take, x, chosen)


# --- resizing


resize = lambda x, taps, axis: apply(resize_rules.resize_axis, x, taps=taps, axis=axis)
resize_adjoint = lambda g, taps, axis: apply(resize_rules.resize_axis_adjoint, g, taps=taps, axis=axis)


def as_index(x: Any) -> Any:
    """Return integers as indices, which have no gradient."""
    return wrap(x._array.astype(np.int64))
