"""Adam, and AdamW, whose weight decay is apart from the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._core import TensorCore
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim.optimizer import ParamsT

__all__ = ["Adam", "adam"]


class Adam(PerParameter):
    """Each step goes along the running mean of the gradient, divided by the root of its running mean square."""

    _later_options = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False, "fused": None,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
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
        check.lr(lr, foreach, capturable)
        check.at_least_zero("epsilon value", eps)
        check.betas(betas)
        check.at_least_zero("weight_decay value", weight_decay)
        _check_kinds_of_betas(betas, foreach, capturable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check.fused(fused, foreach, differentiable)

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _step_sparse(self, group: Group, param: Any, grad: Any) -> None:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize, decay, decoupled = group["maximize"], group["weight_decay"], group["decoupled_weight_decay"]
        lr, beta1, beta2 = x.scalar(group["lr"]), x.scalar(group["betas"][0]), x.scalar(group["betas"][1])
        if group.get("differentiable") and type(age) in (int, float):
            age = np.float32(age)  # as PyTorch counts recorded steps: 1 - beta2**age loses digits
        # The means start at zero; dividing them by 1 - beta**age makes up for it. Here the divisors are moved out of
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


def _check_kinds_of_betas(betas: Any, foreach: bool | None, capturable: bool) -> None:
    kinds = [isinstance(beta, TensorCore) for beta in betas]
    if not all(kinds) and not all(isinstance(beta, float) for beta in betas):
        raise ValueError("betas must be either both floats or both Tensors")
    for place, is_tensor in enumerate(kinds):
        if is_tensor and foreach and not capturable:
            raise ValueError(f"betas[{place}] as a Tensor is not supported for capturable=False and foreach=True")
        check.one_element(betas[place], f"betas[{place}]")


adam, _single_tensor_adam = functions_of(
    Adam, "adam", "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
    "foreach capturable differentiable fused grad_scale found_inf has_complex decoupled_weight_decay",
    "amsgrad beta1 beta2 lr weight_decay eps maximize",
)  # fmt: skip
_multi_tensor_adam = _fused_adam = _single_tensor_adam
