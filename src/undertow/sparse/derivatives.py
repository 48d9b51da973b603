"""`torch.autograd.grad` and `backward` of sparse tensors: gradients of a sparse tensor are those of its values."""

from __future__ import annotations

from typing import Any

from undertow._src.engine import differentiate
from undertow._src.tensor.core import TensorCore
from undertow.sparse.coo import SparseTensor, function


def _several(given: Any) -> tuple[Any, ...]:
    return (given,) if given is None or isinstance(given, TensorCore) else tuple(given)


def _values(tensor: Any) -> Any:
    return tensor._items if isinstance(tensor, SparseTensor) else tensor


def _seeds(outputs: tuple[Any, ...], gradients: Any) -> tuple[Any, ...]:
    """Return gradients of outputs as gradients of the recorded tensors; for a sparse output, of its values."""
    given = _several(gradients) if gradients is not None else (None,) * len(outputs)
    seeds = []
    for output, gradient in zip(outputs, given, strict=True):
        if isinstance(output, SparseTensor) and gradient is not None:
            gradient = output._seed(gradient)
        elif isinstance(gradient, SparseTensor):
            gradient = gradient.to_dense()
        seeds.append(gradient)
    return tuple(seeds)


@function("grad")
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **options: Any) -> Any:
    """Return the gradients; those of sparse inputs are sparse."""
    outs, wanted = _several(outputs), _several(inputs)
    found = differentiate.grad(
        [_values(output) for output in outs], [_values(each) for each in wanted], _seeds(outs, grad_outputs), *args,
        **options,
    )  # fmt: skip
    return tuple(
        [
            each._as_gradient(gradient) if isinstance(each, SparseTensor) and gradient is not None else gradient
            for each, gradient in zip(wanted, found, strict=True)
        ]
    )


@function("backward")
def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **options: Any) -> None:
    """Run a backward pass from sparse outputs, or to sparse leaves."""
    given = options.pop("grad_tensors", options.pop("gradient", grad_tensors))
    outs = _several(tensors)
    if options.get("inputs") is not None:
        options["inputs"] = [_values(each) for each in _several(options["inputs"])]
    differentiate.backward([_values(output) for output in outs], _seeds(outs, given), *args, **options)
