"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim._state import State, count_from, multiply_number, next_count, number_in, zeros_for
from undertow.optim.optimizer import ParamsT

__all__ = ["NAdam", "nadam"]

_OPTIONS = "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"
_CHECKS = {
    "lr": check.lr,
    "eps": check.eps,
    "betas": check.betas,
    "weight_decay": check.weight_decay,
    "momentum_decay": check.at_least_zero("Invalid momentum_decay value: {}"),
}


class NAdam(PerParameter):
    """Adam that looks one step ahead: the mean is mixed with the gradient by a momentum that grows with the steps."""

    _later_options = {
        "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False,
    }  # fmt: skip

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _captured(self, group: Group) -> str:
        return "params, mu_products, and state_steps" if group["foreach"] else "params, mu_products and state_steps"

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _begin(self, group: Group, param: Any, state: State) -> None:
        state["step"] = count_from(0.0)
        state["mu_product"] = count_from(1.0)
        state["exp_avg"] = zeros_for(param)
        state["exp_avg_sq"] = zeros_for(param)

    def _begins_with_zeros(self, group: Group) -> bool:
        return True  # and a product of 1

    def _revive(self, state: State) -> None:
        super()._revive(state)
        if "mu_product" in state and not isinstance(state["mu_product"], TensorCore):
            state["mu_product"] = count_from(float(state["mu_product"]))

    def _advance(self, group: Group, state: State) -> tuple[Any, Any]:
        age = next_count(state)
        multiply_number(state, "mu_product", _momentum(group, age))
        return age, number_in(state, "mu_product")

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        count, product = age
        maximize, decay, decoupled = group["maximize"], group["weight_decay"], group["decoupled_weight_decay"]
        lr, beta1, beta2 = x.scalar(group["lr"]), x.scalar(group["betas"][0]), x.scalar(group["betas"][1])
        now, ahead = _momentum(group, count), _momentum(group, count + 1)
        of_grad = x.number(-lr * (1 - now) / (1 - product))
        of_mean = x.number(-lr * ahead / (1 - product * ahead))
        correction = x.number(1 / (1 - beta2**count))
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
            size = x.add_(x.sqrt_(x.mul(square, correction)), eps)
            return x.addcdiv_(x.addcdiv_(param, grad, size, of_grad), mean, size, of_mean), mean, square

        return rule


def _momentum(group: Group, age: Any) -> Any:
    """Return the momentum of one step."""
    beta = group["betas"][0]
    return (beta.item() if isinstance(beta, TensorCore) else beta) * (1 - 0.5 * 0.96 ** (age * group["momentum_decay"]))


nadam, _single_tensor_nadam = functions_of(
    NAdam, "nadam", "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq mu_products=mu_product state_steps=step",
    "decoupled_weight_decay foreach capturable differentiable has_complex maximize",
    "beta1 beta2 lr weight_decay momentum_decay eps",
)  # fmt: skip
_multi_tensor_nadam = _single_tensor_nadam
