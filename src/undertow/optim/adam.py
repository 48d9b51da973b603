"""Adam: steps along the running mean of the gradient, divided by its root mean square."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim.optimizer import ParamsT

__all__ = ["Adam", "adam"]


def _check_lr(lr: Any, options: check.Options) -> None:
    _check_tensor("lr", lr, options)
    check.lr(lr, options)


def _check_betas(betas: Any, options: check.Options) -> None:
    check.betas(betas, options)
    if not any(all(isinstance(beta, kind) for beta in betas) for kind in (float, TensorCore)):
        raise ValueError("betas must be either both floats or both Tensors")
    for place, beta in enumerate(betas):
        _check_tensor(f"betas[{place}]", beta, options)


def _check_tensor(name: str, value: Any, options: check.Options) -> None:
    """Check that an option given as a tensor is supported here."""
    if isinstance(value, TensorCore) and options["foreach"] and not options["capturable"]:
        raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
    check.one_element(value, name)


_OPTIONS = "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"
_CHECKS = {"lr": _check_lr, "eps": check.eps, "betas": _check_betas, "weight_decay": check.weight_decay}


class Adam(PerParameter):
    """Each step goes along the running mean of the gradient, divided by the root of its running mean square."""

    _later_options = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False, "fused": None,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _step_sparse(self, group: Group, param: Any, grad: Any) -> None:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize, decay, decoupled = group["maximize"], group["weight_decay"], group["decoupled_weight_decay"]
        lr, beta1, beta2 = x.scalar(group["lr"]), x.scalar(group["betas"][0]), x.scalar(group["betas"][1])
        if group.get("differentiable") and type(age) in (int, float):
            age = np.float32(age)  # as PyTorch computes differentiable steps: 1 - beta2**age loses digits
        # The means start at zero; dividing them by 1 - beta**age corrects that. Here the divisors are moved out of
        # the elementwise part: m / c1 / (sqrt(v / c2) + eps) = (sqrt(c2) / c1) * m / (sqrt(v) + sqrt(c2) * eps).
        root = (1 - beta2**age) ** 0.5
        rate = x.number(-lr * root / (1 - beta1**age))
        eps = x.number(group["eps"] * root)
        new1, keep2, new2 = x.number(1 - beta1), x.number(beta2), x.number(1 - beta2)
        shrink, pull = x.number(1 - lr * decay), x.number(decay)

        def rule(param: Any, grad: Any, mean: Any, square: Any, largest: Any = None) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            if decay != 0:
                if decoupled:
                    param = x.mul_(param, shrink)
                else:
                    grad = x.add(grad, param, pull)
            mean = x.lerp_(mean, grad, new1)
            square = x.addcmul_(x.mul_(square, keep2), grad, grad, new2)
            if largest is not None:
                largest = x.maximum_(largest, square)
            size = x.add_(x.sqrt(square if largest is None else largest), eps)
            return x.addcdiv_(param, mean, size, rate), mean, square, largest

        return rule


adam, _single_tensor_adam = functions_of(
    Adam, "adam", "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
    "foreach capturable differentiable fused grad_scale found_inf has_complex decoupled_weight_decay",
    "amsgrad beta1 beta2 lr weight_decay eps maximize",
)  # fmt: skip
_multi_tensor_adam = _fused_adam = _single_tensor_adam
