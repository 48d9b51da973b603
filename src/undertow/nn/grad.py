"""Gradients of convolutions with respect to the input and to the weight, as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.engine.apply import apply
from undertow._src.ops.conv import expanded
from undertow._src.rules import conv as rules
from undertow._tensor import Tensor

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight",
]  # fmt: skip


def _options(
    rank: int, shape: tuple[int, ...], kernel: tuple[int, ...], grad_output: Tensor, options: tuple[Any, ...]
) -> dict[str, Any]:
    """Return each option with one number per dim; check the shape of the gradient."""
    if len(shape) != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 2}-dimensional input for {rank + 2}-dimensional weight {list(kernel)}, but got "
            f"{len(shape)}-dimensional input of size {list(shape)} instead"
        )
    names = ("stride", "padding", "dilation")
    sizes = {name: expanded(value, rank, name, f"conv{rank}d") for name, value in zip(names, options, strict=False)}
    found = grad_output._array.shape
    for axis, (n, k, s, p, d) in enumerate(zip(shape[2:], kernel[2:], *sizes.values(), strict=True)):
        wanted = (n + 2 * p - d * (k - 1) - 1) // s + 1
        if found[2 + axis] != wanted:
            place = 2 + axis + (rank == 1)  # PyTorch computes sequences as images with one row
            raise RuntimeError(
                f"Expected a tensor of dimension {max(rank, 2) + 2} and tensor.size[{place}] == {wanted} but got: "
                f"dimension {max(rank, 2) + 2} and tensor.size[{place}] = {found[2 + axis]}"
            )
    return {**sizes, "groups": options[3]}


def _to_input(rank: int) -> Callable[..., Tensor]:
    def conv_input(
        input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        shape, given = tuple(input_size), (stride, padding, dilation, groups)
        statics = _options(rank, shape, weight._array.shape, grad_output, given)
        return apply(rules.conv_input_grad, grad_output, weight, shape=shape, **statics)

    return _named(conv_input, f"conv{rank}d_input", f"Return the gradient of conv{rank}d with respect to its input.")


def _to_weight(rank: int) -> Callable[..., Tensor]:
    def conv_weight(
        input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        shape, given = tuple(weight_size), (stride, padding, dilation, groups)
        statics = _options(rank, input._array.shape, shape, grad_output, given)
        return apply(rules.conv_weight_grad, grad_output, input, shape=shape, **statics)

    return _named(conv_weight, f"conv{rank}d_weight", f"Return the gradient of conv{rank}d with respect to its weight.")


def _named(function: Callable[..., Tensor], name: str, doc: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


conv1d_input, conv2d_input, conv3d_input = map(_to_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_to_weight, (1, 2, 3))
