"""Adagrad: gradients divided by the root of the sum of their squares."""

from __future__ import annotations

from typing import Any

from undertow._src.base.modes import no_grad
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._arithmetic import Rule
from undertow.optim._functions import functions_of
from undertow.optim._per_parameter import Group, PerParameter, Steps
from undertow.optim._state import State, count_from, full_for
from undertow.optim.optimizer import ParamsT
from undertow.sparse.coo import sparse_coo_tensor

__all__ = ["Adagrad", "adagrad"]

_OPTIONS = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"
_CHECKS = {
    "lr": check.lr,
    "lr_decay": check.at_least_zero("Invalid lr_decay value: {}"),
    "weight_decay": check.weight_decay,
    "initial_accumulator_value": check.at_least_zero("Invalid initial_accumulator_value value: {}"),
    "eps": check.eps,
}


class Adagrad(PerParameter):
    """Each step divides the gradient by the root of the sum of all squared gradients so far."""

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))
        for group in self.param_groups:
            for param in group["params"]:
                self._begin(group, param, self.state[param])

    def _buffers(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _begin(self, group: Group, param: Any, state: State) -> None:
        start = group["initial_accumulator_value"]
        state["step"] = count_from(0.0)
        state["sum"] = full_for(param, complex(start, start) if param.is_complex() else start)

    def share_memory(self) -> None:
        """Move the state into shared memory."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _step_sparse(self, group: Group, param: Any, grad: Any) -> None:
        """Update only the rows that have a gradient, and their sums of squares."""
        if group["fused"]:
            raise RuntimeError("`fused` does not support sparse grad or complex params")
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        age, (total,) = self._prepare(group, param)
        with no_grad():
            grad = (-grad if group["maximize"] else grad).coalesce()
            total.add_(grad.pow(2))
            root = total.sparse_mask(grad).values().sqrt().add_(group["eps"])
            step = sparse_coo_tensor(grad.indices(), grad.values() / root, grad.size())
            param.add_(step, alpha=-float(group["lr"]) / (1 + (float(age) - 1) * group["lr_decay"]))

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        maximize, decay = group["maximize"], group["weight_decay"]
        rate = x.number(-x.scalar(group["lr"]) / (1 + (age - 1) * group["lr_decay"]))
        one, eps, pull = x.number(1), x.number(group["eps"]), x.number(decay)

        def rule(param: Any, grad: Any, total: Any) -> tuple[Any, ...]:
            if maximize:
                grad = x.neg(grad)
            if decay != 0:
                grad = x.add(grad, param, pull)
            total = x.addcmul_(total, grad, grad, one)
            return x.addcdiv_(param, grad, x.add_(x.sqrt(total), eps), rate), total

        return rule


adagrad, _single_tensor_adagrad = functions_of(
    Adagrad, "adagrad", "state_sums=sum state_steps=step",
    "fused grad_scale found_inf has_sparse_grad foreach differentiable has_complex",
    "lr weight_decay lr_decay eps maximize",
)  # fmt: skip
_multi_tensor_adagrad = _fused_adagrad = _single_tensor_adagrad
