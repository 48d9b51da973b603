"""`call_for_per_sample_grads`: call a module so that `backward` computes a gradient for every example.

Parameters are replaced by `ExpandedWeight`s. A function that treats each example separately is mapped over the
examples, each with its own copy of the weight; other functions raise, because they might mix the examples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow._src.base import tree
from undertow._src.overrides.torch_function import DisableTorchFunctionSubclass
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.autograd.function import Function
from undertow.func import functional_call, vmap
from undertow.nn.modules.module import Module
from undertow.nn.modules.rnn import RNNBase

__all__ = ["call_for_per_sample_grads"]

_EACH_APART = frozenset("linear conv1d conv2d conv3d embedding layer_norm group_norm instance_norm".split())
_FACTS = frozenset(["__get__", "size", "dim", "numel", "is_complex", "is_floating_point"])


class _Copies(Function):
    """Expands a parameter to one copy per example; the copies' gradients are stored on it and not passed on."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, weight: ExpandedWeight) -> Any:
        ctx.weight = weight
        return parameter.detach().expand(weight.batch_size, *parameter.shape).clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        parameter, grad = ctx.weight.orig_weight, grads[0]
        if ctx.weight.loss_reduction == "mean":
            grad = grad * ctx.weight.batch_size
        before = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = grad if before is None else before + grad
        return None, None


class ExpandedWeight(Tensor):
    """A stand-in for a parameter that holds the number of examples."""

    orig_weight: Any
    batch_size: int
    loss_reduction: str

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _FACTS:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs or {})
        if name not in _EACH_APART:
            raise RuntimeError(f"Expanded Weights encountered but cannot handle function {name}")
        return _mapped(func, *args, **kwargs or {})


def _mapped(func: Callable[..., Any], input: Tensor, *args: object, **kwargs: object) -> Any:
    """Map a function over the examples, each with its own copies of the weights."""
    if isinstance(input, ExpandedWeight):
        raise RuntimeError("Expanded Weights do not support a weight as the input of a function")
    weights = [each for each in (*args, *kwargs.values()) if isinstance(each, ExpandedWeight)]
    if input.shape[0] != weights[0].batch_size:
        raise RuntimeError(
            "Expected ExpandedWeights to have batch size matching input; that is "
            f"{input.shape[0]}, and theirs {weights[0].batch_size}"
        )

    def of_one(example: Any, copies: list[Any]) -> Any:
        left = iter(copies)
        placed, named = tree.map_leaves(lambda x: next(left) if isinstance(x, ExpandedWeight) else x, (args, kwargs))
        return func(example.unsqueeze(0), *placed, **named).squeeze(0)

    return vmap(of_one)(input, [_Copies.apply(weight.orig_weight, weight) for weight in weights])


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """Wrap a module so that `backward` sets `grad_sample` on its parameters, one gradient for every example.

    With `loss_reduction="mean"` they are gradients of each example's own loss, not of its share of the mean.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        recurrent = next((type(part).__name__ for part in module.modules() if isinstance(part, RNNBase)), None)
        if recurrent is not None:
            raise RuntimeError(f"Expanded Weights encountered but cannot handle function {recurrent.lower()}")
        count = _examples(args, kwargs, batch_first) if batch_size is None else batch_size
        weights = {
            name: _expanded(parameter, count, loss_reduction) if parameter.requires_grad else parameter
            for name, parameter in module.named_parameters()
        }
        return functional_call(module, weights, args, kwargs)

    return call


def _expanded(parameter: Tensor, batch_size: int, loss_reduction: str) -> ExpandedWeight:
    weight = Tensor._make_subclass(ExpandedWeight, parameter.detach())
    weight.orig_weight, weight.batch_size, weight.loss_reduction = parameter, batch_size, loss_reduction
    return weight


def _examples(args: object, kwargs: object, batch_first: bool) -> int:
    """Return the number of examples in the first tensor among the arguments."""
    for leaf in tree.leaves((args, kwargs)):
        if isinstance(leaf, TensorCore):
            return int(leaf.shape[0 if batch_first else 1])
    raise RuntimeError(
        "Unable to find a tensor in the passed args and kwargs. Without one the size of the batch is not known: "
        "give batch_size="
    )
