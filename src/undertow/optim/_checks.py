"""Checks of optimizers' options, in PyTorch's words."""

from __future__ import annotations

from typing import Any

from undertow._core import TensorCore


def lr(lr: Any, foreach: bool | None = None, capturable: bool = False) -> None:
    if isinstance(lr, TensorCore):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        one_element(lr, "lr")
    at_least_zero("learning rate", lr)


def one_element(value: Any, name: str) -> None:
    if isinstance(value, TensorCore) and value._array.size != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def at_least_zero(what: str, value: Any) -> None:
    if not value >= 0.0:
        raise ValueError(f"Invalid {what}: {value}")


def betas(betas: Any) -> None:
    for place in (0, 1):
        if not 0.0 <= betas[place] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {place}: {betas[place]}")


def fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
