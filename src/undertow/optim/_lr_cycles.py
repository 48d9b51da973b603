"""Schedulers whose learning rate rises and falls: cosine annealing, cycles, one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from undertow.optim._lr_base import LRScheduler, check_optimizer, computes_with_numbers, in_step, warn_outside_step
from undertow.optim._lr_options import one_per_group, put_value, state_of_function
from undertow.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """The learning rate falls to eta_min and rises again along a cosine, with half a period of T_max epochs."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        groups, low, now = self.optimizer.param_groups, self.eta_min, self.last_epoch
        if self._is_initial:
            return [group["lr"] for group in groups]
        angle = math.pi / self.T_max
        if self._step_count == 1 and now > 0:
            return self._get_closed_form_lr()
        if (now - 1 - self.T_max) % (2 * self.T_max) == 0:  # past the lowest point the ratio below is 0 / 0
            rise = (1 - math.cos(angle)) / 2
            return [group["lr"] + (base - low) * rise for base, group in zip(self.base_lrs, groups)]
        ratio = (1 + math.cos(angle * now)) / (1 + math.cos(angle * (now - 1)))
        return [ratio * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The learning rate falls along half a cosine, then restarts at the top; each run is T_mult times longer."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        _expect("positive integer T_0", T_0, T_0 > 0 and isinstance(T_0, int))
        _expect("integer T_mult >= 1", T_mult, T_mult >= 1 and isinstance(T_mult, int))
        _expect("float or int eta_min", f"{eta_min} of type {type(eta_min)}", isinstance(eta_min, (float, int)))
        self.T_0 = self.T_i = T_0  # the lengths of the first run and of the current one
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    @computes_with_numbers
    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to a given one, which may be fractional."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        with in_step(self):
            values = self.get_lr()
        self._write(values)

    def _jump(self, epoch: float) -> None:
        """Find the restart that an epoch belongs to."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log((epoch / self.T_0 * (self.T_mult - 1) + 1), self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts


class CyclicLR(LRScheduler):
    """The learning rate rises and falls between two bounds, while the momentum falls and rises."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = one_per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                put_value(group, "lr", lr)
        self.max_lrs = one_per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _SCALE_MODE[mode]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = uses_beta1(optimizer)
            self.base_momentums = one_per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = one_per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for high, low, group in zip(self.max_momentums, self.base_momentums, optimizer.param_groups):
                    put_momentum(group, high, self.use_beta1)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the factor of a cycle's amplitude; x is the number of the cycle or of the iteration."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return {"triangular": 1.0, "triangular2": 1 / (2.0 ** (x - 1)), "exp_range": self.gamma**x}[self.mode]

    def get_lr(self) -> list[Any]:
        """Return the learning rates; also set the groups' momentum."""
        warn_outside_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups)
            for low, high, group in bounds:
                put_momentum(group, high - (high - low) * height * scale, self.use_beta1)
        return [base + (high - base) * height * scale for base, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """Return the scheduler's attributes, without the optimizer and without a plain function."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if function is None else state_of_function(function)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        state = dict(state_dict)
        function = state.pop("_scale_fn_custom")
        super().load_state_dict(state)
        if function is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(function)


_SCALE_MODE = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


class OneCycleLR(LRScheduler):
    """One rise to max_lr and a long fall far below the start, over a known number of steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        up, end = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        self._schedule_phases = [_phase(up, "initial", "max")]
        if three_phase:
            back = float(2 * pct_start * self.total_steps) - 2
            self._schedule_phases += [_phase(back, "max", "initial"), _phase(end, "initial", "min")]
        else:
            self._schedule_phases.append(_phase(end, "max", "min"))
        _expect("float between 0 and 1 pct_start", pct_start, 0 <= pct_start <= 1 and isinstance(pct_start, float))
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        highest = one_per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, highest):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = uses_beta1(optimizer)
            highs = one_per_group("max_momentum", optimizer, max_momentum)
            lows = one_per_group("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                for high, low, group in zip(highs, lows, optimizer.param_groups):
                    put_momentum(group, high, self.use_beta1)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: Any, end: Any, share: float) -> Any:
        """Interpolate between start and end."""
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        """Return the learning rates; also set the groups' momentum."""
        warn_outside_step(self)
        now = self.last_epoch
        if now > self.total_steps:
            raise ValueError(f"Tried to step {now} times. The specified number of total steps is {self.total_steps}")
        begin: float = 0
        for place, phase in enumerate(self._schedule_phases):
            if now <= phase["end_step"] or place == len(self._schedule_phases) - 1:
                share = (now - begin) / (phase["end_step"] - begin)
                break
            begin = phase["end_step"]
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                value = self._anneal_func(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                put_momentum(group, value, self.use_beta1)
        return rates


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        _expect("positive integer total_steps", total_steps, total_steps > 0 and isinstance(total_steps, int))
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, count in {"epochs": epochs, "steps_per_epoch": steps_per_epoch}.items():
        _expect(f"positive integer {name}", count, isinstance(count, int) and count > 0)
    return epochs * steps_per_epoch


def _expect(wanted: str, value: object, holds: bool) -> None:
    if not holds:
        raise ValueError(f"Expected {wanted}, but got {value}")


def _phase(end_step: float, start: str, end: str) -> dict[str, Any]:
    """Return a phase in the form of checkpoints; momentum is high where the learning rate is low."""
    momentum = {"initial": "max_momentum", "max": "base_momentum", "min": "max_momentum"}
    return {
        "end_step": end_step, "start_lr": f"{start}_lr", "end_lr": f"{end}_lr",
        "start_momentum": momentum[start], "end_momentum": momentum[end],
    }  # fmt: skip


def uses_beta1(optimizer: Any) -> bool:
    """Whether an optimizer's momentum is called beta1."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def put_momentum(group: dict[str, Any], value: Any, as_beta1: bool) -> None:
    if as_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
