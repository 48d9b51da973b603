"""Pooling. Averages are linear, so their gradient is the adjoint; maxima pass gradients to the maximal element."""

# fmt: off
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.rules.rule import Rule, op

if TYPE_CHECKING:
    from undertow._src.rules.array import Array, Namespace
    from undertow._src.rules.rule import Spec

# --- maxima


def _max_pool(rank: int, indices: bool) -> Rule:
    """Return the rule with the maxima's indices as second result, or hidden."""
    return op(f"max_pool{rank}d_with_indices",
        lambda xp, self, *, kernel_size, stride, padding, dilation, ceil_mode: xp.max_pool(
            self, kernel_size, stride, padding, dilation, ceil_mode),
        node=f"MaxPool{rank}DWithIndicesBackward0", promote="same", accepts="if", materialize=False, stepwise=True,
        **({"outputs": 2, "names": ("result0", "result1"), "differentiable": 1} if indices else {"hidden": ("result1",)}),
        self=_max_gradient_of_two if indices else _max_gradient)


def _max_gradient(
    xp: Namespace, g: Array, self: Array, self_spec: Spec, result1: Array, kernel_size: Sequence[int], stride: object,
    padding: object, dilation: object,
) -> Array:  # fmt: skip
    # `self` is saved because PyTorch's nodes show it.
    size = self_spec.shape[self_spec.ndim - len(kernel_size) :]
    return xp.max_pool_grad(g, result1, size, kernel_size, stride, padding, dilation)


def _max_gradient_of_two(
    xp: Namespace, g: Any, self: Array, self_spec: Spec, result1: Array, kernel_size: Sequence[int],
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
) -> Array | None:  # fmt: skip
    if g[0] is None:
        return None
    return _max_gradient(xp, g[0], self, self_spec, result1, kernel_size, stride, padding, dilation)


max_pool = {rank: _max_pool(rank, indices=False) for rank in (2, 3)}
max_pool_with_indices = {rank: _max_pool(rank, indices=True) for rank in (2, 3)}


def _adaptive_max_pool(rank: int) -> Rule:
    return op(f"adaptive_max_pool{rank}d",
        lambda xp, self, *, output_size: xp.adaptive_max_pool(self, output_size) if all(output_size) else
        nothing_found(xp, self, output_size),
        node=f"AdaptiveMaxPool{rank}DBackward0", promote="same", accepts="f", materialize=False, stepwise=True,
        outputs=2, names=("result0", "result1"), differentiable=1,
        self=lambda xp, g, self, self_spec, result1, output_size: None if g[0] is None else xp.add_to_planes(
            filled(g[0], f"adaptive_max_pool{rank}d"), result1, self_spec.shape[self_spec.ndim - len(output_size) :],
            False))


adaptive_max_pool = {rank: _adaptive_max_pool(rank) for rank in (2, 3)}

add_to_planes = op("max_pool_backward", lambda xp, self, indices, *, size, distinct: xp.add_to_planes(
                       self, indices, size, distinct),
                   node="MaxPool2DWithIndicesBackwardBackward0",
                   self=lambda xp, g, indices, size: xp.take_from_planes(g, indices, len(size)))

take_from_planes = op("gather", lambda xp, self, indices, *, rank: xp.take_from_planes(self, indices, rank),
                      self=lambda xp, g, indices, self_spec, rank: xp.add_to_planes(
                          g, indices, self_spec.shape[self_spec.ndim - rank :], False))


def _max_unpool(rank: int) -> Rule:
    return op(f"max_unpool{rank}d", lambda xp, self, indices, *, output_size: xp.put_in_planes(self, indices, output_size),
              node=f"MaxUnpool{rank}DBackward0",
              self=lambda xp, g, indices, output_size: xp.take_from_planes(g, indices, len(output_size)))


max_unpool = {rank: _max_unpool(rank) for rank in (2, 3)}

# --- averages


def _avg_pool(rank: int) -> Rule:
    return op(f"avg_pool{rank}d",
        lambda xp, self, *, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: xp.avg_pool(
            self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override),
        node=f"AvgPool{rank}DBackward0", promote="same", accepts="if", keeps=("self",), stepwise=True,
        self=lambda xp, g, self_spec, kernel_size, stride, padding, count_include_pad, divisor_override:
            xp.avg_pool_grad(g, self_spec.shape[self_spec.ndim - len(kernel_size) :], kernel_size, stride, padding,
                             count_include_pad, divisor_override))


avg_pool = {rank: _avg_pool(rank) for rank in (2, 3)}

avg_pool_grad = op("avg_pool_backward",
    lambda xp, self, *, size, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override:
        xp.avg_pool_grad(self, size, kernel_size, stride, padding, count_include_pad, divisor_override),
    node="AvgPool2DBackwardBackward0", promote="same",
    self=lambda xp, g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: xp.avg_pool(
        g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override))


def _adaptive_avg_pool(rank: int) -> Rule:
    return op(f"adaptive_avg_pool{rank}d", lambda xp, self, *, output_size: xp.adaptive_avg_pool(self, output_size),
              node=f"AdaptiveAvgPool{rank}DBackward0", promote="same", accepts="f", keeps=("self",), stepwise=True,
              self=lambda xp, g, self_spec, output_size: xp.adaptive_avg_pool_grad(
                  filled(g, f"adaptive_avg_pool{rank}d"), self_spec.shape[self_spec.ndim - len(output_size) :]))


adaptive_avg_pool = {rank: _adaptive_avg_pool(rank) for rank in (2, 3)}

adaptive_avg_pool_grad = op("adaptive_avg_pool_backward",
    lambda xp, self, *, size: xp.adaptive_avg_pool_grad(self, size),
    node="AdaptiveAvgPool2DBackwardBackward0", promote="same",
    self=lambda xp, g, self_spec, size: xp.adaptive_avg_pool(g, self_spec.shape[self_spec.ndim - len(size) :]))
# fmt: on


def nothing_found(xp: Namespace, x: Array, output_size: Sequence[int]) -> tuple[Any, Any]:
    """Return the maxima, and their indices, of no windows."""
    shape = (*x.shape[: x.ndim - len(output_size)], *output_size)
    return xp.zeros(shape, x.dtype), xp.zeros(shape, "int64")


def filled(g: Array, name: str) -> Array:
    """Return the gradient unless it is empty: PyTorch refuses the backward pass of a pool without windows."""
    for dim in range(1, g.ndim):
        if g.shape[dim] == 0:
            raise RuntimeError(
                f"{name}_backward(): Expected grad_output to have non-zero size for non-batch dimensions, but its "
                f"shape {list(g.shape)} is empty at dimension {dim}"
            )
    return g
