"""SparseAdam: Adam that touches only the rows of a parameter that have a gradient.

PyTorch gives `Embedding(sparse=True)` a sparse gradient. Gradients here are dense, so a row counts as having none when all
of it is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from undertow.autograd.outputs import bump
from undertow.modes import enable_grad
from undertow.optim import _checks as check
from undertow.optim._state import zeros_for
from undertow.optim.optimizer import Optimizer, ParamsT
from undertow.sparse.coo import SparseTensor

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Running means move, and parameters change, only in the rows that a batch has used."""

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check.lr(lr)
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check.betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the rows that have a gradient; `closure`, if given, recomputes the loss first."""
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
        beta1, beta2 = group["betas"]
        grad = param.grad.to_dense()._array if isinstance(param.grad, SparseTensor) else param.grad._array
        rows = np.nonzero(grad.reshape(grad.shape[0], -1).any(1))[0]
        part = -grad[rows] if group["maximize"] else grad[rows]
        mean, square = state["exp_avg"]._array, state["exp_avg_sq"]._array
        mean[rows] += (part - mean[rows]) * (1 - beta1)
        square[rows] += (part * part - square[rows]) * (1 - beta2)
        size = float(group["lr"]) * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        param._array[rows] -= size * mean[rows] / (np.sqrt(square[rows]) + group["eps"])
        bump(param)
