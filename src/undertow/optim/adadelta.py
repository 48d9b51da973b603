"""Adadelta: steps in proportion to the running RMS of earlier steps."""

from __future__ import annotations

from typing import Any

from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._helpers import CAPTURABLE_FOREACH
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim.optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]

_OPTIONS = "lr rho eps weight_decay maximize capturable foreach differentiable"
_CHECKS = {
    "lr": check.lr,
    "rho": check.requires(lambda value: 0.0 <= value <= 1.0, "Invalid rho value: {}"),
    "eps": check.eps,
    "weight_decay": check.weight_decay,
}


class Adadelta(PerParameter):
    """Each step is the gradient times the ratio of two running RMS values: of earlier steps and of gradients."""

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _capturable_devices = (CAPTURABLE_FOREACH, CAPTURABLE_FOREACH)

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def _advance(self, group: Group, state: dict[str, Any]) -> Any:
        super()._advance(group, state)
        return None  # the rule is the same at every step

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize, decay, rho = group["maximize"], group["weight_decay"], group["rho"]
        rate, eps = x.number(-x.scalar(group["lr"])), x.number(group["eps"])
        keep, new, pull = x.number(rho), x.number(1 - rho), x.number(decay)

        def rule(param: Any, grad: Any, square: Any, moved: Any) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            if decay != 0:
                grad = x.add(grad, param, pull)
            square = x.addcmul_(x.mul_(square, keep), grad, grad, new)
            size = x.sqrt_(x.add(square, eps))
            delta = x.mul_(x.div(x.sqrt_(x.add(moved, eps)), size), grad)
            moved = x.addcmul_(x.mul_(moved, keep), delta, delta, new)
            return x.add_(param, delta, rate), square, moved

        return rule


adadelta, _single_tensor_adadelta = functions_of(
    Adadelta, "adadelta", "square_avgs=square_avg acc_deltas=acc_delta state_steps=step",
    "capturable foreach differentiable has_complex",
    "lr rho eps weight_decay maximize",
)  # fmt: skip
_multi_tensor_adadelta = _single_tensor_adadelta
