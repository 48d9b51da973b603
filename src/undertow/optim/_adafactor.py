"""Adafactor: an adaptive optimizer that stores mean squares per row and column only."""

from __future__ import annotations

from typing import Any

from undertow._src.base.modes import no_grad
from undertow._src.ops.compare import where
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import finfo
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._on_device import OnDevice
from undertow.optim._per_parameter import Group, PerParameter
from undertow.optim._state import State, count_from, next_count, zeros_for
from undertow.optim.optimizer import ParamsT

__all__ = ["Adafactor", "adafactor"]


def _check_floors(floors: tuple[float | None, float], _: check.Options) -> None:
    for number, floor in enumerate(floors, 1):
        if not (floor is None and number == 1) and not floor >= 0.0:  # type: ignore[operator]
            raise ValueError(f"epsilon{number} should be >= 0 but is: {floor}")


_OPTIONS = "lr beta2_decay eps d weight_decay foreach maximize"
_CHECKS = {
    "lr": check.rate(check.at_least_zero("Learning rate should be >= 0 but is: {}")),
    "beta2_decay": check.requires(lambda value: value <= 0.0, "beta2_decay should be <= 0 but is: {}"),
    "eps": _check_floors,
    "d": check.requires(lambda value: value >= 1.0, "Clipping threshold d should be >= 1 but is: {}"),
    "weight_decay": check.at_least_zero("weight_decay should be >= 0 but is: {}"),
}


class Adafactor(PerParameter):
    """Steps relative to the size of the parameter, with factored mean squares for parameters of two or more dims."""

    __module__ = "undertow.optim"  # PyTorch's module, which pickled files name
    _later_options = {"foreach": None}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
        foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, check.options(locals(), _OPTIONS, _CHECKS))

    def _begin(self, group: Group, param: Any, state: State) -> None:
        state["step"] = count_from(0.0)
        if param.dim() > 1:
            state["row_var"] = zeros_for(param[..., :1].contiguous())
            state["col_var"] = zeros_for(param[..., :1, :].contiguous())
        else:
            state["variance"] = zeros_for(param)

    def _step_group(self, group: Group, on_device: OnDevice) -> None:
        with no_grad():
            for param in group["params"]:
                if param.grad is None:
                    continue
                if not param.grad._is_strided:
                    raise RuntimeError("Adafactor does not support sparse gradients")
                if param.is_complex():
                    raise RuntimeError("Adafactor does not support complex parameters")
                state = self.state[param]
                if not state:
                    self._begin(group, param, state)
                _update(group, next_count(state), param, param.grad, state)


def _update(group: Group, age: Any, param: Any, grad: Any, state: State) -> None:
    """Update one parameter. Uses tensors, because it needs sums over the whole parameter."""
    if group["maximize"]:
        grad = -grad
    lr, decay, (eps1, eps2) = group["lr"], group["weight_decay"], group["eps"]
    if isinstance(lr, TensorCore):
        lr = lr.reshape(())
    if eps1 is None:
        eps1 = finfo(param.dtype).eps
    new = age ** group["beta2_decay"]
    if isinstance(new, TensorCore):
        new = new.to(grad.dtype)
    rate = _at_least(eps2, _root_mean_square(param)) * _smaller(lr, 1 / age**0.5)
    if decay != 0:
        param.mul_(1 - lr * decay)
    square = grad * grad
    if grad.dim() > 1:
        rows = state["row_var"].lerp_(square.mean(-1, keepdim=True), new)
        columns = state["col_var"].lerp_(square.mean(-2, keepdim=True), new)
        variance = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=eps1)
    else:
        variance = state["variance"].lerp_(square, new)
    update = grad * variance.clamp(min=eps1 * eps1).rsqrt()
    param.sub_(update * (rate / _at_least(1.0, _root_mean_square(update) / group["d"])))


def _root_mean_square(tensor: Any) -> Any:
    return (tensor * tensor).mean().sqrt()


def _at_least(least: float, value: Any) -> Any:
    """Return the larger of two values; the first if the second is nan."""
    return where(value > least, value, least)


def _smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, each plain or a tensor."""
    if isinstance(b, TensorCore):
        return b.clamp(max=a)
    return a.clamp(max=b) if isinstance(a, TensorCore) else min(a, b)


def adafactor(
    params: Any, grads: Any, row_vars: Any, col_vars: Any, variances: Any, state_steps: Any, foreach: bool | None = None,
    grad_scale: Any = None, found_inf: Any = None, has_complex: bool = False, *, d: float, lr: Any, beta2_decay: float,
    weight_decay: float, eps1: float | None, eps2: float, maximize: bool,
) -> None:  # fmt: skip
    """Make one step of Adafactor on lists of parameters, gradients and state."""
    group = {
        "d": d, "lr": lr, "beta2_decay": beta2_decay, "weight_decay": weight_decay, "eps": (eps1, eps2),
        "maximize": maximize,
    }  # fmt: skip
    with no_grad():
        for param, grad, rows, columns, variance, count in zip(
            params, grads, row_vars, col_vars, variances, state_steps, strict=True
        ):
            state = {"row_var": rows, "col_var": columns, "variance": variance, "step": count}
            _update(group, next_count(state), param, grad, state)


_single_tensor_adafactor = _multi_tensor_adafactor = adafactor
