"""ASGD: averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim._state import State, count_from, next_count, number_in, put_number, zeros_for
from undertow.optim.optimizer import ParamsT

__all__ = ["ASGD", "asgd"]

_OPTIONS = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
_CHECKS = {"lr": check.lr, "weight_decay": check.weight_decay}


class ASGD(PerParameter):
    """Gradient descent with a falling rate `eta` that also keeps an average `ax` of the parameters."""

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _captured(self, group: Group) -> str:
        return "params, mus, etas, and state_steps"

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("ax",)

    def _begin(self, group: Group, param: Any, state: State) -> None:
        state["step"] = count_from(0.0)
        state["eta"] = count_from(float(group["lr"]))
        state["mu"] = count_from(1.0)
        state["ax"] = zeros_for(param)

    def _revive(self, state: State) -> None:
        super()._revive(state)
        for name in ("eta", "mu"):
            if name in state and not isinstance(state[name], TensorCore):
                state[name] = count_from(float(state[name]))

    def _advance(self, group: Group, state: State) -> tuple[Any, Any]:
        """Return this step's rate and averaging weight, and store those of the next step in the state."""
        age = next_count(state)
        eta, mu = number_in(state, "eta"), number_in(state, "mu")
        if isinstance(eta, TensorCore):
            eta, mu = eta.clone(), mu.clone()
        beyond: Any = age - group["t0"]
        beyond = beyond.clamp(min=1) if isinstance(beyond, TensorCore) else max(1, beyond)
        lr = group["lr"]
        if isinstance(lr, TensorCore):
            lr = lr.reshape(())  # a learning rate tensor of one element may have dims
        put_number(state, "eta", lr / ((1 + group["lambd"] * lr * age) ** group["alpha"]))
        put_number(state, "mu", 1 / beyond)
        return eta, mu

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        eta, mu = age
        maximize, decay = group["maximize"], group["weight_decay"]
        shrink, rate, pull = x.number(1 - group["lambd"] * eta), x.number(-eta), x.number(decay)
        follows = not isinstance(mu, TensorCore) and mu == 1
        weight = x.number(mu)

        def rule(param: Any, grad: Any, average: Any) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            if decay != 0:
                grad = x.add(grad, param, pull)
            param = x.add_(x.mul_(param, shrink), grad, rate)
            return param, x.copy_(average, param) if follows else x.lerp_(average, param, weight)

        return rule


asgd, _single_tensor_asgd = functions_of(
    ASGD, "asgd", "axs=ax mus=mu etas=eta state_steps=step",
    "foreach maximize differentiable capturable has_complex",
    "lambd lr t0 alpha weight_decay",
)  # fmt: skip
_multi_tensor_asgd = _single_tensor_asgd
