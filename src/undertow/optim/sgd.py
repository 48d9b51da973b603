"""SGD: stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.base.modes import no_grad
from undertow._src.tensor.creation import zeros_like
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule, recorded, shown
from undertow.optim._functions import functions_of
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim._state import State, zeros_for
from undertow.optim.optimizer import ParamsT

__all__ = ["SGD", "sgd"]


def _check_nesterov(nesterov: bool, options: check.Options) -> None:
    if nesterov and (options["momentum"] <= 0 or options["dampening"] != 0):
        raise ValueError("Nesterov momentum requires a momentum and zero dampening")


_OPTIONS = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
_CHECKS = {"lr": check.lr, "momentum": check.momentum, "weight_decay": check.weight_decay, "nesterov": _check_nesterov}


class SGD(PerParameter):
    """Each step subtracts `lr` times the gradient, or times a running sum of gradients that decays by `momentum`."""

    _foreach_differentiable = True
    _later_options = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: Any = 0, nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _prepare(self, group: Group, param: Any) -> tuple[bool, Any]:
        """Return whether this is the first step with momentum, and the buffers. Without momentum there is no state."""
        if group["momentum"] == 0:
            return False, ()
        return self._with_average(param, zeros_for, param)

    def _begin(self, group: Group, param: Any, state: State) -> None:
        state["momentum_buffer"] = zeros_for(param)

    def _begins_with_zeros(self, group: Group) -> bool:
        return group["momentum"] != 0 and group["dampening"] == 0

    def _with_average(self, param: Any, zeros: Callable[[Any], Any], like: Any) -> tuple[bool, Any]:
        state = self.state[param]
        average = state.get("momentum_buffer")
        if average is not None:
            return False, (average,)
        state["momentum_buffer"] = zeros(like)
        return True, (state["momentum_buffer"],)

    def _step_sparse(self, group: Group, param: Any, grad: Any) -> None:
        """Apply the rule to sparse tensors: rows without a gradient stay, and the running sum is sparse too."""
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")
        age, buffers = self._with_average(param, zeros_like, grad) if group["momentum"] else (False, ())
        with no_grad():
            shown.run(self._rule(shown, group, age), [param, grad, *buffers])

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize, nesterov = group["maximize"], group["nesterov"]
        decay, momentum = x.scalar(group["weight_decay"]), group["momentum"]
        rate = x.number(-x.scalar(group["lr"]))
        keep, blend = x.number(momentum), x.number(1 if age else 1 - group["dampening"])
        decayed = not (isinstance(decay, (int, float)) and decay == 0)
        decay = x.number(decay)

        def rule(param: Any, grad: Any, average: Any = None) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            if decayed:
                grad = x.add(grad, param, decay)
            if average is not None:
                average = x.add_(x.mul_(average, keep), grad, blend)
                if age and x is recorded:  # PyTorch detaches the first value of the running sum
                    average = average.detach()
                grad = x.add(grad, average, keep) if nesterov else average
            return x.add_(param, grad, rate), average

        return rule


sgd, _single_tensor_sgd = functions_of(
    SGD, "sgd", "momentum_buffer_list=momentum_buffer",
    "has_sparse_grad foreach fused grad_scale found_inf",
    "weight_decay momentum lr dampening nesterov maximize", gradients="d_p_list",
)  # fmt: skip
_multi_tensor_sgd = _fused_sgd = _single_tensor_sgd
