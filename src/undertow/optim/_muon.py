"""Muon: momentum with orthogonalized updates of matrices."""

from __future__ import annotations

import math
from typing import Any

from undertow._src.base.modes import no_grad
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import bfloat16
from undertow.optim import _checks as check
from undertow.optim._on_device import OnDevice
from undertow.optim._per_parameter import Group, PerParameter
from undertow.optim._state import zeros_for
from undertow.optim.optimizer import ParamsT

__all__ = ["Muon", "muon"]

_WAYS_TO_ADJUST = ("original", "match_rms_adamw")

_OPTIONS = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
_CHECKS = {
    "lr": check.rate(check.at_least_zero("Learning rate should be >= 0 but is: {}")),
    "momentum": check.at_least_zero("momentum should be >= 0 but is: {}"),
    "weight_decay": check.at_least_zero("weight decay should be >= 0 but is: {}"),
    "adjust_lr_fn": check.requires(
        lambda value: value in (None, *_WAYS_TO_ADJUST), "Adjust learning rate function {} is not supported"
    ),
}


class Muon(PerParameter):
    """For matrices: moves the momentum's singular values towards one by a few Newton-Schulz iterations."""

    __module__ = "undertow.optim"  # PyTorch's module, which pickled files name

    def __init__(
        self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}"
                    )

    def _step_group(self, group: Group, on_device: OnDevice) -> None:
        with no_grad():
            for param in group["params"]:
                if param.grad is None:
                    continue
                if not param.grad._is_strided:
                    raise RuntimeError("Muon does not support sparse gradients")
                if param.is_complex():
                    raise RuntimeError("Muon does not support complex parameters")
                state = self.state[param]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = zeros_for(param)
                _update(group, param, param.grad, state["momentum_buffer"])


def _update(group: Group, param: Any, grad: Any, average: Any) -> None:
    lr, momentum = group["lr"], group["momentum"]
    if isinstance(lr, TensorCore):
        lr = lr.item()
    average.lerp_(grad, 1 - momentum)
    direction = grad.lerp(average, momentum) if group["nesterov"] else average
    direction = _orthogonal(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
    rate = _adjust_lr(lr, group["adjust_lr_fn"], param.shape)
    param.mul_(1 - lr * group["weight_decay"])
    param.sub_(direction.to(param.dtype) * rate)


def _adjust_lr(lr: float, adjust_lr_fn: str | None, param_shape: Any) -> float:
    """Return the learning rate for a matrix of this shape."""
    rows, columns = param_shape[:2]
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns))


def _orthogonal(matrix: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """Return a matrix with the same singular vectors and singular values near one, computed in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.to(bfloat16)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = x.addmm(gram.addmm(gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def muon(
    params: Any, grads: Any, muon_momentum_bufs: Any, *, foreach: bool | None = None, lr: float, weight_decay: float,
    momentum: float, nesterov: bool, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float,
    adjust_lr_fn: str | None, has_complex: bool,
) -> None:  # fmt: skip
    """Make one step of Muon on lists of matrices, gradients and running means."""
    group = {
        "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "eps": eps,
        "ns_coefficients": ns_coefficients, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
    }  # fmt: skip
    with no_grad():
        for param, grad, average in zip(params, grads, muon_momentum_bufs, strict=True):
            _update(group, param, grad, average)


_single_tensor_muon, _zeropower_via_newtonschulz = muon, _orthogonal
