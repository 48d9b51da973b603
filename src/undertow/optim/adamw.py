"""AdamW: Adam whose weight decay shrinks the parameters directly."""

from __future__ import annotations

from typing import Any

from undertow._tensor import Tensor
from undertow.optim._functions import functions_of
from undertow.optim.adam import Adam
from undertow.optim.optimizer import ParamsT

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam with decoupled weight decay: each step first multiplies the parameters by 1 - lr * weight_decay."""

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True  # checkpoints from before Adam had the option lack it


adamw, _ = functions_of(
    AdamW, "adamw", "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
    "foreach capturable differentiable fused grad_scale found_inf has_complex",
    "amsgrad beta1 beta2 lr weight_decay eps maximize", decoupled_weight_decay=True,
)  # fmt: skip
