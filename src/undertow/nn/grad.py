"""Gradients of convolutions as functions: what flows to the input, and what to the weight."""

from __future__ import annotations

from typing import Any

from undertow.autograd.differentiate import grad
from undertow.creation import zeros
from undertow.modes import enable_grad
from undertow.nn import functional as F

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight",
]  # fmt: skip


def _to_input(name: str, input_size: Any, weight: Any, grad_output: Any, options: tuple[Any, ...]) -> Any:
    with enable_grad():
        input = zeros(tuple(input_size), dtype=grad_output.dtype, requires_grad=True)
        output = getattr(F, name)(input, weight.detach(), None, *options)
    return grad(output, input, grad_output)[0]


def _to_weight(name: str, input: Any, weight_size: Any, grad_output: Any, options: tuple[Any, ...]) -> Any:
    with enable_grad():
        weight = zeros(tuple(weight_size), dtype=grad_output.dtype, requires_grad=True)
        output = getattr(F, name)(input.detach(), weight, None, *options)
    return grad(output, weight, grad_output)[0]


def conv1d_input(
    input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """The gradient of conv1d with respect to its input."""
    return _to_input("conv1d", input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """The gradient of conv1d with respect to its weight."""
    return _to_weight("conv1d", input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv2d_input(
    input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """The gradient of conv2d with respect to its input."""
    return _to_input("conv2d", input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """The gradient of conv2d with respect to its weight."""
    return _to_weight("conv2d", input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """The gradient of conv3d with respect to its input."""
    return _to_input("conv3d", input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """The gradient of conv3d with respect to its weight."""
    return _to_weight("conv3d", input, weight_size, grad_output, (stride, padding, dilation, groups))
