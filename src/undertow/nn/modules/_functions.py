"""`torch.nn.modules._functions`: the layers that PyTorch implements as custom functions."""

from __future__ import annotations

from typing import Any

from undertow._src.distributed.functions import all_gather, all_reduce
from undertow._src.engine.differentiate import grad
from undertow._src.ops.join import cat, stack
from undertow._src.types.dtypes import float64
from undertow._tensor import Tensor
from undertow.autograd.function import Function, once_differentiable
from undertow.autograd.grad_mode import enable_grad
from undertow.nn.modules.normalization import CrossMapLRN2d as _CrossMapLRN2d


class BackwardHookFunction(Function):
    """The identity; hooks on its node see the gradients of all arguments at once."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        return args


class CrossMapLRN2d(Function):
    """`nn.CrossMapLRN2d` as a function."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> Any:
        ctx.layer = _CrossMapLRN2d(size, alpha, beta, k)
        ctx.save_for_backward(input)
        return ctx.layer(input)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        (input,) = ctx.saved_tensors
        with enable_grad():
            given = input.detach().requires_grad_()
            (found,) = grad(ctx.layer(given), given, grad_output)
        return found, None, None, None, None


class SyncBatchNorm(Function):
    """Batch norm over the batches of all ranks."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, momentum: Any,
        process_group: Any, world_size: int,
    ) -> Tensor:  # fmt: skip
        dims = [dim for dim in range(input.dim()) if dim != 1]
        count = input.numel() // input.shape[1]
        own = input if input.dtype == float64 else input.float()
        statistics = own.new_zeros(2, input.shape[1])
        if count:
            statistics[0], statistics[1] = own.mean(dims), own.var(dims, unbiased=False)
        means, variances, counts = _everywhere(statistics, count, process_group)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        var = ((variances + (means - mean) ** 2) * counts).sum(0) / total
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean * momentum)
            running_var.mul_(1 - momentum).add_(var * (total / (total - 1)) * momentum)
        scale = (var + eps).rsqrt()
        ctx.save_for_backward(input, weight, mean, scale, total)
        ctx.group, ctx.has_bias = process_group, bias is not None
        normal = (own - _by_channel(mean, input)) * _by_channel(scale, input)
        if weight is not None:
            normal = normal * _by_channel(weight, input)
        return (normal if bias is None else normal + _by_channel(bias, input)).to(input.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        input, weight, mean, scale, total = ctx.saved_tensors
        dims = [dim for dim in range(input.dim()) if dim != 1]
        g = grad_output.to(mean.dtype)
        normal = (input.to(mean.dtype) - _by_channel(mean, input)) * _by_channel(scale, input)
        sums = stack([g.sum(dims), (g * normal).sum(dims)])
        own = sums.clone()
        grad_input = None
        if ctx.needs_input_grad[0]:
            all_reduce(sums, group=ctx.group)
            shared = sums / total
            grad_input = g - _by_channel(shared[0], input) - normal * _by_channel(shared[1], input)
            grad_input = grad_input * _by_channel(scale if weight is None else scale * weight, input)
            grad_input = grad_input.to(input.dtype)
        grad_weight = own[1].to(weight.dtype) if ctx.needs_input_grad[1] else None
        grad_bias = own[0].to(weight.dtype if weight is not None else mean.dtype) if ctx.needs_input_grad[2] else None
        return grad_input, grad_weight, grad_bias, None, None, None, None, None, None


sync_batch_norm = SyncBatchNorm.apply


def _by_channel(value: Any, input: Tensor) -> Any:
    """Return a value per channel in a shape that broadcasts with the input."""
    return value.view(1, -1, *[1] * (input.dim() - 2))


def _everywhere(statistics: Tensor, count: int, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the means, variances and numbers of elements of all ranks; one row for each."""
    mine = cat([statistics.reshape(-1), statistics.new_full((1,), count)])
    rows = [mine.clone() for _ in range(group.size())]
    all_gather(rows, mine, group=group)
    table = stack(rows)
    means, variances = table[:, :-1].view(len(rows), 2, -1).unbind(1)
    return means, variances, table[:, -1:]
