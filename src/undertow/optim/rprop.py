"""Rprop: resilient propagation, which uses only the signs of gradients."""

from __future__ import annotations

from typing import Any

from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._helpers import CAPTURABLE
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim._state import State, count_from, full_for, zeros_for
from undertow.optim.optimizer import ParamsT

__all__ = ["Rprop", "rprop"]

_OPTIONS = "lr etas step_sizes foreach maximize differentiable capturable"
_CHECKS = {
    "lr": check.lr,
    "etas": check.requires(lambda value: 0.0 < value[0] < 1.0 < value[1], "Invalid eta values: {0[0]}, {0[1]}"),
}


class Rprop(PerParameter):
    """Each element has its own step size, which grows while the gradient keeps its sign and shrinks when it changes."""

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _capturable_devices = (CAPTURABLE, CAPTURABLE)

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("prev", "step_size")

    def _begin(self, group: Group, param: Any, state: State) -> None:
        lr = float(group["lr"])
        state["step"] = count_from(0.0)
        state["prev"] = zeros_for(param)
        state["step_size"] = full_for(param, complex(lr, lr) if param.is_complex() else lr)

    def _advance(self, group: Group, state: State) -> Any:
        super()._advance(group, state)
        return None  # the rule is the same at every step

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize = group["maximize"]
        shrink, grow = (x.number(eta) for eta in group["etas"])
        least, most = (x.number(size) for size in group["step_sizes"])
        zero, one, minus_one = x.number(0), x.number(1), x.number(-1)

        def rule(param: Any, grad: Any, before: Any, size: Any) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            agreement = x.mul(grad, before)
            turned = agreement < 0
            rest = x.add(x.neg(x.abs(x.sign(agreement))), one)  # 1 at zero, in the dtype of the parameter
            factor = x.where(turned, shrink, x.where(agreement > 0, grow, rest))
            size = x.clamp_(x.mul_(size, factor), least, most)
            grad = x.where(turned, zero, grad)  # so that the next step does not count as a sign change
            param = x.addcmul_(param, x.sign(grad), size, minus_one)
            return param, x.copy_(before, grad), size

        return rule


rprop, _single_tensor_rprop = functions_of(
    Rprop, "rprop", "prevs=prev step_sizes=step_size state_steps=step",
    "foreach capturable maximize differentiable has_complex",
    "step_size_min step_size_max etaminus etaplus",
)  # fmt: skip
_multi_tensor_rprop = _single_tensor_rprop
