"""RAdam: Adam that uses its mean square only after enough gradients."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim.optimizer import ParamsT

__all__ = ["RAdam", "radam"]

_OPTIONS = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"
_CHECKS = {"lr": check.lr, "eps": check.eps, "betas": check.betas, "weight_decay": check.weight_decay}


class RAdam(PerParameter):
    """Adam whose division by the root mean square is rectified, and left out during the first steps."""

    _later_options = {
        "foreach": None, "maximize": False, "differentiable": False, "decoupled_weight_decay": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize, decay, decoupled = group["maximize"], group["weight_decay"], group["decoupled_weight_decay"]
        lr, (beta1, beta2) = x.scalar(group["lr"]), group["betas"]
        enough, rectified = _rectification(beta2, age)
        known = not isinstance(enough, TensorCore)  # then only one of the two updates is needed
        correction, rate, minus_one, one = x.number(1 - beta1**age), x.number(lr), x.number(-1.0), x.number(1.0)
        adapted, rectified = x.number((1 - beta2**age) ** 0.5), x.number(rectified)
        new1, keep2, new2, eps = x.number(1 - beta1), x.number(beta2), x.number(1 - beta2), x.number(group["eps"])
        shrink, pull = x.number(1 - lr * decay), x.number(decay)

        def rule(param: Any, grad: Any, mean: Any, square: Any) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            if decay != 0:
                if decoupled:
                    param = x.mul_(param, shrink)
                else:
                    grad = x.add(grad, param, pull)
            mean = x.lerp_(mean, grad, new1)
            square = x.addcmul_(x.mul_(square, keep2), grad, grad, new2)
            step = x.mul(x.div(mean, correction), rate)
            if not known or enough:
                inverse = x.mul(x.div(one, x.add_(x.sqrt(square), eps)), adapted)
                divided = x.mul(x.mul(step, inverse), rectified)
                step = divided if known else x.where(enough, divided, step)
            return x.add_(param, step, minus_one), mean, square

        return rule


def _samples(beta2: float, age: Any) -> Any:
    """Return the length of the moving average that approximates the running mean square."""
    return 2 / (1 - beta2) - 1 - 2 * age * beta2**age / (1 - beta2**age)


def _rectification(beta2: float, age: Any) -> tuple[Any, Any]:
    """Return whether there were enough gradients to use the mean square, and the rectification factor."""
    most, now = 2 / (1 - beta2) - 1, _samples(beta2, age)
    if most <= 5:
        return False, 1.0
    enough = now > 5
    now = now.clamp(min=5) if isinstance(age, TensorCore) else max(now, 5)
    return enough, ((now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now)) ** 0.5


radam, _single_tensor_radam = functions_of(
    RAdam, "radam", "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq state_steps=step",
    "decoupled_weight_decay foreach differentiable capturable has_complex maximize",
    "beta1 beta2 lr weight_decay eps",
)  # fmt: skip
_multi_tensor_radam = _single_tensor_radam
