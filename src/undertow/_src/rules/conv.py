"""Convolution and its transpose, and unfolding an image into windows.

`conv`, `conv_input_grad` and `conv_weight_grad` are the three ways to contract one trilinear form, so each one's gradients
are the other two: gradients of any order need nothing else.
"""

# fmt: off
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace
    from undertow._src.rules.rule import Spec

convolution = op("convolution",
    lambda xp, input, weight, bias, *, stride, padding, dilation, transposed, output_padding, groups: convolve(
        xp, input, weight, bias, (stride, padding, dilation, groups), output_padding if transposed else None),
    promote="same", accepts="ifc", half=True, keeps=("input", "weight"),
    input=lambda xp, g, weight, input_spec, stride, padding, dilation, transposed, groups:
        shortened(xp, xp.conv(g, weight, stride, padding, dilation, groups), input_spec) if transposed else
        xp.conv_input_grad(g, weight, input_spec.shape, stride, padding, dilation, groups) if input_spec.shape[1] else
        xp.zeros(input_spec.shape, xp.dtype_of(g)),
    weight=lambda xp, g, input, weight_spec, stride, padding, dilation, transposed, output_padding, groups:
        xp.conv_weight_grad(lengthened(xp, input, stride, output_padding), g, weight_spec.shape, stride, padding,
                            dilation, groups) if transposed else
        xp.conv_weight_grad(g, input, weight_spec.shape, stride, padding, dilation, groups) if weight_spec.shape[1] else
        xp.zeros(weight_spec.shape, xp.dtype_of(g)),
    bias=lambda xp, g, weight_spec: xp.channel_sums(g) if g.shape[1] else xp.zeros(
        weight_spec.shape[:1], xp.dtype_of(g)))

# The gradients as separate rules, for a recorded backward pass.

conv_input_grad = op("convolution_backward",
    lambda xp, grad_output, weight, *, shape, stride, padding, dilation, groups: xp.conv_input_grad(
        grad_output, weight, shape, stride, padding, dilation, groups),
    promote="same", half=True,
    grad_output=lambda xp, g, weight, stride, padding, dilation, groups: xp.conv(
        g, weight, stride, padding, dilation, groups),
    weight=lambda xp, g, grad_output, weight_spec, stride, padding, dilation, groups: xp.conv_weight_grad(
        grad_output, g, weight_spec.shape, stride, padding, dilation, groups))

conv_weight_grad = op("convolution_backward",
    lambda xp, grad_output, input, *, shape, stride, padding, dilation, groups: xp.conv_weight_grad(
        grad_output, input, shape, stride, padding, dilation, groups),
    promote="same", half=True,
    grad_output=lambda xp, g, input, stride, padding, dilation, groups: xp.conv(
        input, g, stride, padding, dilation, groups),
    input=lambda xp, g, grad_output, input_spec, stride, padding, dilation, groups: xp.conv_input_grad(
        grad_output, g, input_spec.shape, stride, padding, dilation, groups))

channel_sums = op("sum", lambda xp, self: xp.channel_sums(self), promote="same", node="SumBackward1",
                  self=lambda xp, g, self_spec: xp.broadcast_to(
                      xp.reshape(g, (1, -1) + (1,) * (self_spec.ndim - 2)), self_spec.shape))

# --- windows as columns

im2col = op("im2col",
    lambda xp, self, *, kernel_size, dilation, padding, stride: in_batch(
        xp, xp.unfold, self, 4, kernel_size, stride, padding, dilation),
    node="Im2ColBackward0", promote="same",
    self=lambda xp, g, self_spec, kernel_size, dilation, padding, stride: in_batch(
        xp, xp.fold, g, 3, self_spec.shape[-2:], kernel_size, stride, padding, dilation))

col2im = op("col2im",
    lambda xp, self, *, output_size, kernel_size, dilation, padding, stride: in_batch(
        xp, xp.fold, self, 3, output_size, kernel_size, stride, padding, dilation),
    node="Col2ImBackward0", promote="same",
    self=lambda xp, g, kernel_size, dilation, padding, stride: in_batch(
        xp, xp.unfold, g, 4, kernel_size, stride, padding, dilation))
# fmt: on


def in_batch(xp: Namespace, function: Callable[..., Any], x: Array, ndim: int, *options: Any) -> Array:
    """Return a function of batches, applied to one image if x is no batch."""
    return function(x, *options) if x.ndim == ndim else xp.squeeze(function(xp.expand_dims(x, 0), *options), 0)


def convolve(
    xp: Namespace, input: Array, weight: Array, bias: Array | None, options: Any, output_padding: Sequence[int] | None
) -> Array:
    """Return the convolution, or with `output_padding` the transposed one (its adjoint), plus the bias."""
    stride, padding, dilation, groups = options
    if output_padding is None and input.shape[1] == 0:  # PyTorch returns as many channels as it takes: none
        padded = [n + 2 * p for n, p in zip(input.shape[2:], padding, strict=True)]
        reach = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
        counts = [(n - k) // s + 1 for n, k, s in zip(padded, reach, stride, strict=True)]
        return xp.zeros((input.shape[0], 0, *counts), input.dtype)
    if output_padding is None:
        return xp.conv(input, weight, stride, padding, dilation, groups, bias)
    size = [
        (n - 1) * s - 2 * p + d * (k - 1) + more + 1
        for n, k, s, p, d, more in zip(
            input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True
        )
    ]
    shape = (input.shape[0], weight.shape[1] * groups, *size)
    input = lengthened(xp, input, stride, output_padding)
    out = xp.conv_input_grad(input, weight, shape, stride, padding, dilation, groups)
    return out if bias is None else out + xp.reshape(bias, (1, -1) + (1,) * len(size))


def lengthened(xp: Namespace, input: Array, stride: Sequence[int], output_padding: Sequence[int]) -> Array:
    """Return the input of a transposed convolution padded with zeros, where output_padding exceeds a stride."""
    more = [o // s for o, s in zip(output_padding, stride, strict=True)]
    return xp.pad(input, ((0, 0), (0, 0), *[(0, n) for n in more]), 0) if any(more) else input


def shortened(xp: Namespace, x: Array, spec: Spec) -> Array:
    """Return the adjoint of `lengthened`."""
    for dim in range(2, len(spec.shape)):
        if x.shape[dim] > spec.shape[dim]:
            x = xp.slice_along(x, dim, 0, spec.shape[dim])
    return x
