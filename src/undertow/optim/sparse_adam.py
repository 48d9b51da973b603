"""SparseAdam: Adam that touches only the rows of a parameter that have a gradient.

These are the rows of a sparse gradient. On accelerators and in compiled steps gradients are dense; there, a row of
zeros counts as having no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.base.modes import enable_grad
from undertow._src.engine.outputs import bump
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._state import zeros_for
from undertow.optim.optimizer import Optimizer, ParamsT
from undertow.sparse.coo import SparseTensor

__all__ = ["SparseAdam"]

_OPTIONS = "lr betas eps maximize"
_CHECKS = {
    "lr": check.rate(check.requires(lambda value: value > 0.0, "Invalid learning rate: {}")),
    "eps": check.requires(lambda value: value > 0.0, "Invalid epsilon value: {}"),
    "betas": check.betas,
}


class SparseAdam(Optimizer):
    """Running means move, and parameters change, only in the rows that a batch has used."""

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))
        places = [
            ([number, place], param)
            for number, group in enumerate(self.param_groups)
            for place, param in enumerate(group["params"])
        ]
        sparse = [place for place, param in places if param.is_sparse]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        whole = [place for place, param in places if param.is_complex()]
        if whole:
            raise ValueError(f"Complex params at indices {whole}: SparseAdam does not support complex parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the rows that have a gradient; `closure`, if given, recomputes the loss first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._step_one(group, param)
        return loss

    def _step_one(self, group: dict[str, Any], param: Any) -> None:
        state = self.state[param]
        if not state:
            state.update(step=0, exp_avg=zeros_for(param), exp_avg_sq=zeros_for(param))
        state["step"] += 1
        sparse_adam(
            [param], [param.grad], [state["exp_avg"]], [state["exp_avg_sq"]], [state["step"]], eps=group["eps"],
            beta1=group["betas"][0], beta2=group["betas"][1], lr=group["lr"], maximize=group["maximize"],
        )  # fmt: skip


def sparse_adam(
    params: Any, grads: Any, exp_avgs: Any, exp_avg_sqs: Any, state_steps: Any, *, eps: float, beta1: float, beta2: float,
    lr: Any, maximize: bool,
) -> None:  # fmt: skip
    """Make one step on lists of parameters, gradients, running means and counts, which include this step."""
    for param, given, average, squares, count in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True):
        states = param._array, average._array, squares._array
        size = (lr if isinstance(lr, float) else float(lr)) * (1 - beta2**count) ** 0.5 / (1 - beta1**count)
        rows: Any = ...
        if isinstance(given, SparseTensor):
            kept = given.coalesce()
            rows, grad = tuple(kept._places._array), kept._items._array
            moved = _moved(-grad if maximize else grad, size, beta1, beta2, eps, *[state[rows] for state in states])
        elif type(given._array) is np.ndarray:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        else:  # on a device or while tracing: rows of zeros stay as they are
            grad = given._array
            used = grad.reshape(grad.shape[0], -1).any(1).reshape(-1, *[1] * (grad.ndim - 1))
            moved = _moved(-grad if maximize else grad, size, beta1, beta2, eps, *states)
            moved = [np.where(used, new, old) for new, old in zip(moved, states)]
        for state, new in zip(states, moved):
            state[rows] = new
        bump(param)


def _moved(
    grad: Any, size: Any, beta1: float, beta2: float, eps: float, param: Any, mean: Any, square: Any
) -> list[Any]:
    """Return a parameter and its running means after one step."""
    mean = mean + (grad - mean) * (1 - beta1)
    square = square + (grad * grad - square) * (1 - beta2)
    return [param - size * mean / (np.sqrt(square) + eps), mean, square]
