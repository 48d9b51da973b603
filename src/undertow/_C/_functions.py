"""Functions of PyTorch's compiled autograd that programs call by name: they pass tensors on and matter on the way back."""

from __future__ import annotations

from typing import Any

from undertow.autograd.function import Function

__all__ = ["DelayedError", "UndefinedGrad"]


class _Undefined(Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        passed = tuple([tensor.view_as(tensor) for tensor in tensors])
        return passed if len(passed) > 1 else passed[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None,) * len(grads)


class _Delayed(Function):
    @staticmethod
    def forward(ctx: Any, message: str, *tensors: Any) -> Any:
        ctx.message = message
        passed = tuple([tensor.view_as(tensor) for tensor in tensors])
        return passed if len(passed) > 1 else passed[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(ctx.message)


_Undefined.__name__, _Delayed.__name__ = "UndefinedGrad", "Error"


class UndefinedGrad:
    """Called with tensors, gives them back with a history that sends no gradients on."""

    def __call__(self, *tensors: Any) -> Any:
        return _Undefined.apply(*tensors)


class DelayedError:
    """Called with tensors, gives them back with a history that raises when gradients come."""

    def __init__(self, msg: str, num_inputs: int) -> None:
        self.message, self.count = msg, num_inputs

    def __call__(self, *tensors: Any) -> Any:
        return _Delayed.apply(self.message, *tensors)
