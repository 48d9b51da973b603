"""RMSprop: gradients divided by the root of their running mean square."""

from __future__ import annotations

from typing import Any

from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._helpers import CAPTURABLE
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim.optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]

_OPTIONS = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
_CHECKS = {
    "lr": check.lr,
    "eps": check.eps,
    "momentum": check.momentum,
    "weight_decay": check.weight_decay,
    "alpha": check.at_least_zero("Invalid alpha value: {}"),
}


class RMSprop(PerParameter):
    """Each step divides the gradient by the root of its running mean square, centered on request, with momentum."""

    _later_options = {
        "momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False,
        "capturable": False,
    }  # fmt: skip
    _capturable_devices = (CAPTURABLE, CAPTURABLE)

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _buffers(self, group: Group) -> tuple[str, ...]:
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def _advance(self, group: Group, state: dict[str, Any]) -> Any:
        super()._advance(group, state)
        return None  # the rule is the same at every step

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize, decay = group["maximize"], group["weight_decay"]
        with_momentum, centered = group["momentum"] > 0, group["centered"]
        alpha, rate = group["alpha"], x.number(-x.scalar(group["lr"]))
        keep, new, eps = x.number(alpha), x.number(1 - alpha), x.number(group["eps"])
        momentum, pull, one, minus_one = x.number(group["momentum"]), x.number(decay), x.number(1), x.number(-1)

        def rule(param: Any, grad: Any, square: Any, *more: Any) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            if decay != 0:
                grad = x.add(grad, param, pull)
            square = x.addcmul_(x.mul_(square, keep), grad, grad, new)
            average = variance = None
            if centered:
                average = x.lerp_(more[-1], grad, new)
                variance = x.add(square, x.mul(average, average), minus_one)
            size = x.add_(x.sqrt(square if variance is None else variance), eps)
            if not with_momentum:
                return (x.addcdiv_(param, grad, size, rate), square, *([average] if centered else []))
            running = x.addcdiv_(x.mul_(more[0], momentum), grad, size, one)
            return (x.add_(param, running, rate), square, running, *([average] if centered else []))

        return rule


rmsprop, _single_tensor_rmsprop = functions_of(
    RMSprop, "rmsprop",
    "square_avgs=square_avg grad_avgs=grad_avg momentum_buffer_list=momentum_buffer state_steps=step",
    "foreach maximize differentiable capturable has_complex",
    "lr alpha eps weight_decay momentum centered",
)  # fmt: skip
_multi_tensor_rmsprop = _single_tensor_rmsprop
