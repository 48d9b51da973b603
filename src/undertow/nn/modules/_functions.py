"""`torch.nn.modules._functions`: the layers that PyTorch implements as custom functions."""

from __future__ import annotations

from typing import Any

from undertow._src.engine.differentiate import grad
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
    """Batch norm over several processes. With only one, `nn.SyncBatchNorm` is a plain batch norm."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        raise NotImplementedError("undertow has one process: use nn.SyncBatchNorm, a plain batch norm here")
