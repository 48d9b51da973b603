"""Schedulers that combine others, and the one that follows a metric."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from undertow._src.base.sites import warn
from undertow.optim._lr_base import EPOCH_DEPRECATION_WARNING, LRScheduler, check_optimizer, computes_with_numbers
from undertow.optim._lr_options import put_value, values_of
from undertow.optim.optimizer import Optimizer


class SequentialLR(LRScheduler):
    """Runs one scheduler after the other, switching at the milestones."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        _check_parts(self, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than that of "
                f"milestones, but there are {len(schedulers)} and {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in self.optimizer.param_groups:
            put_value(group, "lr", group["initial_lr"])
        self.recursive_undo()  # constructing the schedulers stepped each of them; only the first should have
        self._schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Undo one step of every scheduler inside."""
        scheduler: Any = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for part in scheduler._schedulers:
                self.recursive_undo(part)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    @computes_with_numbers
    def step(self) -> None:
        """Advance to the next epoch, with the scheduler that is active then."""
        self.last_epoch += 1
        passed = [milestone for milestone in self._milestones if milestone <= self.last_epoch]
        current = self._schedulers[len(passed)]
        if self.last_epoch in passed:  # a milestone: the scheduler begins
            current._update_lr(0)
        else:
            current.step()
        self._last_lr = current.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return the attributes of the scheduler and of those inside it."""
        return _state_with_parts(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        _load_with_parts(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Steps all schedulers at every step, each on the result of those before."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        _check_parts(self, schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = values_of(self._schedulers[-1].optimizer, "lr")

    @computes_with_numbers
    def step(self) -> None:
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values_of(self._schedulers[-1].optimizer, "lr")

    def state_dict(self) -> dict[str, Any]:
        """Return the attributes of the scheduler and of those inside it."""
        return _state_with_parts(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        _load_with_parts(self, state_dict)


def _check_parts(whole: LRScheduler, schedulers: Sequence[LRScheduler], optimizer: Any) -> None:
    name = type(whole).__name__
    for place, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {place} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                f"arguments of `step`: leave the one at index {place} out."
            )
        if optimizer != scheduler.optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but "
                f"{type(scheduler).__name__} at index {place} has {scheduler.optimizer} and not the "
                f"{type(optimizer).__name__}."
            )


def _state_with_parts(whole: Any) -> dict[str, Any]:
    state = {key: value for key, value in whole.__dict__.items() if key not in ("optimizer", "_schedulers")}
    state["_schedulers"] = [scheduler.state_dict() for scheduler in whole._schedulers]
    return state


def _load_with_parts(whole: Any, state_dict: dict[str, Any]) -> None:
    whole.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
    for scheduler, state in zip(whole._schedulers, state_dict["_schedulers"]):
        scheduler.load_state_dict(state)


class ReduceLROnPlateau(LRScheduler):
    """Lowers the learning rate when a metric has stopped improving."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: list[float] | float = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if not factor < 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        self.factor, self.optimizer = factor, optimizer
        groups, listed = len(optimizer.param_groups), isinstance(min_lr, (list, tuple))
        self.default_min_lr: Any = None if listed else min_lr
        self.min_lrs: list[Any] = [*min_lr] if listed else groups * [min_lr]  # type: ignore[misc]
        if len(self.min_lrs) != groups:
            raise ValueError(f"expected {groups} min_lrs, got {len(self.min_lrs)}")
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch, self._last_lr = 0, values_of(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        for words, value, known in (("mode ", mode, "min max"), ("threshold mode ", threshold_mode, "rel abs")):
            if value not in known.split():
                raise ValueError(words + value + " is unknown!")
        self.mode_worse = {"min": inf, "max": -inf}[mode]
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def _reset(self) -> None:
        """Reset the counters and the best metric."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the cooldown after the last reduction is not over."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        margin = self.threshold if self.threshold_mode == "abs" else None
        if self.mode == "min":
            return a < (best * (1.0 - self.threshold) if margin is None else best - margin)
        return a > (best * (self.threshold + 1.0) if margin is None else best + margin)

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Record an epoch's metric, and lower the learning rates when patience is exhausted."""
        metric = float(metrics)
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._count_bad(metric) > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = values_of(self.optimizer, "lr")

    def _count_bad(self, metric: float) -> int:
        """Return the number of bad epochs in a row; those of a cooldown are not counted."""
        better, resting = self._is_better(metric, self.best), self.in_cooldown
        if better:
            self.best = metric
        self.cooldown_counter -= int(resting)
        self.num_bad_epochs = 0 if better or resting else self.num_bad_epochs + 1
        return self.num_bad_epochs

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}): groups were "
                    "added since. Give `min_lrs` a number for each group."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                put_value(group, "lr", new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
