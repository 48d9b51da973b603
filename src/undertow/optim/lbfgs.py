"""L-BFGS: steps along a direction built from the last gradients, with a line search on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.base import tracer
from undertow._src.base.modes import enable_grad, no_grad
from undertow._src.base.sites import user_site
from undertow._src.ops.complex import view_as_real
from undertow._src.ops.join import cat
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.optim import _checks as check
from undertow.optim._line_search import Limits, Point, cubic_minimum, strong_wolfe
from undertow.optim.optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]

State = dict[str, Any]

# What a step leaves to the next one, in PyTorch's order. A step that fails leaves what it found.
_SEARCH = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")

_OPTIONS = "lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn"


class LBFGS(Optimizer):
    """Treats all parameters as one vector. One `step` makes up to `max_iter` iterations with several closure calls.

    >>> w = torch.nn.Parameter(torch.tensor([3., -2.]))
    >>> optimizer = torch.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> [round(value, 3) for value in w.tolist()]
    [1.0, 1.0]
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, check.options(locals(), _OPTIONS, {"lr": check.lr}))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Any] = self.param_groups[0]["params"]
        self._numel_cache: int | None = None

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Call the closure, which clears gradients, computes the loss and calls backward, as often as it needs."""
        if tracer.current is not None:
            raise NeedsValue(
                f"LBFGS, called at {user_site() or 'an unknown line'}, decides by values how often it calls the closure. "
                "Compile the closure instead, and call the optimizer outside: optimizer.step(torch.compile(closure))."
            )
        group, state = self.param_groups[0], self.state[self._params[0]]
        closure = enable_grad()(closure)
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        state["func_evals"] += 1
        now = Point(0.0, _number(first_loss), self._gather_flat_grad())
        if _largest(now.grad) <= group["tolerance_grad"]:
            return first_loss
        evaluations = 1
        search = {key: state.get(key) for key in _SEARCH}
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            _choose_direction(state, search, group, now.grad)
            search["prev_loss"] = now.loss
            slope = float(now.grad.dot(search["d"]))
            if slope > -group["tolerance_change"]:
                break
            start = Point(float(search["t"]), now.loss, now.grad, slope)
            now, more = self._move(closure, group, search, start, iteration)
            evaluations += more
            state["func_evals"] += more
            if evaluations >= group["max_eval"] or _largest(now.grad) <= group["tolerance_grad"]:
                break
            if _largest(search["d"] * search["t"]) <= group["tolerance_change"]:
                break
            if abs(now.loss - search["prev_loss"]) < group["tolerance_change"]:
                break
        state.update(search)
        return first_loss

    def _move(
        self, closure: Callable[[], Any], group: dict[str, Any], search: State, start: Point, iteration: int
    ) -> tuple[Point, int]:
        """Move along the direction; return the loss and gradient there and the number of closure calls."""
        direction = search["d"]
        if group["line_search_fn"] is None:
            self._add_grad(start.t, direction)
            if iteration == group["max_iter"]:
                return start, 0  # the gradient there is not needed
            loss = _number(closure())
            return Point(start.t, loss, self._gather_flat_grad()), 1
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        origin = self._clone_param()

        def look(t: float) -> Point:
            self._add_grad(t, direction)
            loss = _number(closure())
            grad = self._gather_flat_grad()
            self._set_param(origin)
            return Point(t, loss, grad, float(grad.dot(direction)))

        found, evaluations = strong_wolfe(look, start, _largest(direction))
        first = search["t"]
        search["t"] = first.new_tensor(found.t) if isinstance(first, TensorCore) else found.t
        self._add_grad(found.t, direction)
        return found, evaluations

    # --- the parameters as one vector

    def _numel(self) -> int:
        if self._numel_cache is None:
            self._numel_cache = sum(2 * p.numel() if p.is_complex() else p.numel() for p in self._params)
        return self._numel_cache

    def _gather_flat_grad(self) -> Any:
        parts = []
        for param in self._params:
            part = param.detach().mul(0) if param.grad is None else param.grad.detach()
            parts.append(_real(part if part._is_strided else part.to_dense()).reshape(-1))
        return cat(parts)

    def _add_grad(self, t: float, direction: Any) -> None:
        offset = 0
        for param in self._params:
            real = _real(param)
            part = direction[offset : offset + real.numel()]
            real.add_(part.reshape(real.shape), alpha=t)
            offset += real.numel()

    def _clone_param(self) -> list[Any]:
        return [param.clone() for param in self._params]

    def _set_param(self, values: list[Any]) -> None:
        for param, value in zip(self._params, values):
            param.copy_(value)


def _strong_wolfe(
    obj_func: Callable[[Any, float, Any], tuple[float, Any]], x: Any, t: float, d: Any, f: float, g: Any, gtd: float,
    c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Any, float, int]:  # fmt: skip
    """Search along a line, for optimizers of packages; return loss, gradient, step and number of losses."""

    def look(t: float) -> Point:
        loss, grad = obj_func(x, t, d)
        return Point(t, _number(loss), grad.clone(), float(grad.dot(d)))

    start = Point(float(t), _number(f), g.clone(), float(gtd))
    found, evaluations = strong_wolfe(look, start, _largest(d), Limits(c1, c2, tolerance_change, max_ls))
    return found.loss, found.grad, found.t, evaluations


def _cubic_interpolate(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """Return where the cubic through two points with these slopes is lowest."""
    least, most = bounds or (min(x1, x2), max(x1, x2))
    return cubic_minimum(Point(x1, f1, None, g1), Point(x2, f2, None, g2), least, most)


def _real(tensor: Any) -> Any:
    return view_as_real(tensor) if tensor.is_complex() else tensor


def _number(loss: Any) -> float:
    return float(loss.detach() if isinstance(loss, TensorCore) else loss)


def _largest(tensor: Any) -> float:
    return float(tensor.abs().max())


def _choose_direction(state: State, search: State, group: dict[str, Any], grad: Any) -> None:
    """Find the new direction and the first step size along it."""
    if state["n_iter"] == 1:
        search.update(d=-grad, old_dirs=[], old_stps=[], ro=[], H_diag=1)
        search["t"] = min(1.0, 1.0 / grad.abs().sum()) * _scalar(group["lr"])
    else:
        _remember(search, grad, group["history_size"])
        weights = state.setdefault("al", [None] * group["history_size"])
        search["d"] = _two_loops(search, grad, weights)
        search["t"] = _scalar(group["lr"])
    search["prev_flat_grad"] = grad.clone()


def _scalar(lr: Any) -> Any:
    return lr.squeeze() if isinstance(lr, TensorCore) else lr


def _remember(search: State, grad: Any, history_size: int) -> None:
    """Add the last step and the change of the gradient along it to the history, if they curve upwards."""
    change = grad - search["prev_flat_grad"]
    moved = search["d"] * search["t"]
    curvature = change.dot(moved)
    if curvature > 1e-10:
        histories = (search["old_dirs"], search["old_stps"], search["ro"])
        for history, item in zip(histories, (change, moved, 1.0 / curvature)):
            if len(history) == history_size:
                history.pop(0)
            history.append(item)
        search["H_diag"] = curvature / change.dot(change)


def _two_loops(search: State, grad: Any, weights: list[Any]) -> Any:
    """Return the direction: minus the gradient times the inverse Hessian that the history implies."""
    changes, moves, inverses = search["old_dirs"], search["old_stps"], search["ro"]
    direction = -grad
    for i in reversed(range(len(changes))):
        weights[i] = moves[i].dot(direction) * inverses[i]
        direction = direction - changes[i] * weights[i]
    direction = direction * search["H_diag"]
    for i in range(len(changes)):
        direction = direction + moves[i] * (weights[i] - changes[i].dot(direction) * inverses[i])
    return direction
