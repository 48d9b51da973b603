"""Adamax: Adam with the largest recent gradient in place of the root mean square."""

from __future__ import annotations

from typing import Any

from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim.optimizer import ParamsT

__all__ = ["Adamax", "adamax"]

_OPTIONS = "lr betas eps weight_decay foreach maximize differentiable capturable"
_CHECKS = {"lr": check.lr, "eps": check.eps, "betas": check.betas, "weight_decay": check.weight_decay}


class Adamax(PerParameter):
    """Each step goes along the running mean of the gradient, divided by its decaying maximum."""

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize, decay = group["maximize"], group["weight_decay"]
        beta1, beta2 = group["betas"]
        rate = x.number(-x.scalar(group["lr"]) / (1 - beta1**age))
        new, keep, eps, pull = x.number(1 - beta1), x.number(beta2), x.number(group["eps"]), x.number(decay)

        def rule(param: Any, grad: Any, mean: Any, largest: Any) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            if decay != 0:
                grad = x.add(grad, param, pull)
            mean = x.lerp_(mean, grad, new)
            largest = x.maximum_(x.mul_(largest, keep), x.add_(x.abs(grad), eps))
            return x.addcdiv_(param, mean, largest, rate), mean, largest

        return rule


adamax, _single_tensor_adamax = functions_of(
    Adamax, "adamax", "exp_avgs=exp_avg exp_infs=exp_inf state_steps=step",
    "foreach maximize differentiable capturable has_complex",
    "eps beta1 beta2 lr weight_decay",
)  # fmt: skip
_multi_tensor_adamax = _single_tensor_adamax
