"""LRScheduler: counts epochs, and writes the result of a subclass's `get_lr` into the optimizer's groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import ref

from undertow._src.base import tracer
from undertow._src.base.sites import warn
from undertow.optim._lr_options import copied, put_value, values_of
from undertow.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is deprecated. Call "
    "`scheduler.step()` without it. With it, a scheduler that has a formula for any epoch computes the "
    "rate by that, and the others go on from the last rate."
)
_HOW_TO = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def computes_with_numbers(step: Callable[..., None]) -> Callable[..., None]:
    """Mark the step of a scheduler: while a step is traced, it is recorded to be made on each call."""

    @wraps(step)
    def marked(self: Any, *args: Any, **kwargs: Any) -> None:
        if tracer.current is None or not tracer.current.takes_schedule(self, step, (args, kwargs)):
            step(self, *args, **kwargs)

    marked.computes_with_numbers = True  # type: ignore[attr-defined]
    return marked


class LRScheduler:
    """Base of the schedulers. A subclass implements `get_lr`: the learning rate of each group at `last_epoch`."""

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    optimizer: Any
    base_lrs: list[Any]
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with "
                    "last_epoch >= 0.\nLoad the optimizer's state before making the scheduler, or leave last_epoch out."
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Write the learning rate of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return the scheduler's attributes, without the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates that the last step wrote."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the learning rate of each group at `last_epoch`; called by `step` only."""
        raise NotImplementedError

    @computes_with_numbers
    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch (or to a given one) and write its learning rates."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                f"Whether it is called before `lr_scheduler.step()`, as it should be, can no longer be seen. {_HOW_TO}",
                UserWarning,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call "
                "`optimizer.step()` first: otherwise the first learning rate of the schedule is gone before a "
                f"parameter has been updated with it. {_HOW_TO}",
                UserWarning,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        with in_step(self):
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", None)
                values = self.get_lr() if closed_form is None else closed_form()
        self._write(values)

    def _write(self, values: list[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            put_value(group, "lr", value)
        self._last_lr = values_of(self.optimizer, "lr")


class _LRScheduler(LRScheduler):
    """The base class's name before it was public; old subclasses still derive from it."""


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


@contextmanager
def in_step(scheduler: LRScheduler) -> Iterator[None]:
    """Mark get_lr as called by step inside the block, so that it does not warn."""
    scheduler._get_lr_called_within_step = True
    try:
        yield
    finally:
        scheduler._get_lr_called_within_step = False


def warn_outside_step(scheduler: LRScheduler) -> None:
    if not scheduler._get_lr_called_within_step:
        warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning)


def _note_steps(optimizer: Any) -> None:
    """Make an optimizer record that it has stepped, so that a scheduler can check the order of the calls."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    optimizer_ref, function = ref(optimizer), optimizer.step.__func__

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        target: Any = optimizer_ref()
        target._opt_called = True
        return function(target, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    step._optimizer = optimizer_ref  # type: ignore[attr-defined]
    optimizer.step = step
