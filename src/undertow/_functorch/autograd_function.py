"""`torch._functorch.autograd_function`: custom functions inside transforms."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow.autograd.function import Function
from undertow.func._batched import VmapInfo as VmapInfo

__all__ = [
    "VmapInfo", "has_overridden_vmap_rule", "reductify", "reductify_leaf", "validate_vmap_returns_tuple_of_two_elements",
]  # fmt: skip


def has_overridden_vmap_rule(autograd_function: Any) -> bool:
    """Whether a custom function says itself how it is mapped."""
    return autograd_function.vmap is not Function.vmap


def validate_vmap_returns_tuple_of_two_elements(result: Any) -> None:
    """Check what a custom function's `vmap` returned."""
    if not isinstance(result, tuple) or len(result) != 2:
        what = f"a {len(result)}-element tuple" if isinstance(result, tuple) else f"something of type {type(result)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns: outputs, and out_dims that fit "
            f"their structure. It returned {what}."
        )


def reductify_leaf(
    grad_input: Any, grad_input_bdim: int | None, input_bdim: int | None, batch_size: int,
    target_shape_without_bdim_to_reduce_to: Any = None,
) -> Any:  # fmt: skip
    """Return a gradient of all examples in the form of the input: summed over them if the input had no examples."""
    if grad_input is None or (grad_input_bdim is None and input_bdim is None):
        return grad_input
    if grad_input_bdim is not None and input_bdim is None:
        return grad_input.sum(grad_input_bdim)
    assert input_bdim is not None
    if grad_input_bdim is None:
        shape = list(grad_input.shape)
        shape.insert(input_bdim, batch_size)
        return grad_input.unsqueeze(input_bdim).expand(shape)
    if target_shape_without_bdim_to_reduce_to is not None:
        first = grad_input.movedim(grad_input_bdim, 0)
        grad_input, grad_input_bdim = first.sum_to_size((batch_size, *target_shape_without_bdim_to_reduce_to)), 0
    return grad_input if input_bdim == grad_input_bdim else grad_input.movedim(grad_input_bdim, input_bdim)


def reductify(
    grad_input: Any, grad_input_bdim: Any, input_bdim: Any, batch_size: int,
    target_shape_without_bdim_to_reduce_to: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the same for several gradients."""
    several = [grad_input, grad_input_bdim, input_bdim]
    if isinstance(grad_input, TensorCore) or grad_input is None:
        several = [(each,) for each in several]
    shapes = target_shape_without_bdim_to_reduce_to or (None,) * len(several[0])
    return tuple(
        reductify_leaf(one, one_dim, of_input, batch_size, shape)
        for one, one_dim, of_input, shape in zip(*several, shapes, strict=True)
    )
