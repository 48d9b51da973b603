"""Averages of a model's weights: AveragedModel, the SWALR schedule, and update_bn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from undertow._src.arrays.device.array import values_known
from undertow._src.base.modes import no_grad
from undertow._src.ops.compare import where
from undertow._src.tensor.from_data import tensor
from undertow.nn.modules.batchnorm import _BatchNorm
from undertow.nn.modules.module import Module
from undertow.optim._lr_base import LRScheduler, warn_outside_step
from undertow.optim._lr_options import one_per_group
from undertow.optim.optimizer import Optimizer

__all__ = [
    "AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn",
    "get_swa_avg_fn",
]  # fmt: skip

Average = Callable[[Any, Any, Any], Any]  # (average, current, number averaged so far) -> the new average
AverageAll = Callable[[Any, Any, Any], None]  # the same for lists, in place


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return an exponential moving average: each update keeps `decay` of it."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """Return the equal-weight mean of all updates."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _for_lists(average: Average) -> AverageAll:
    @no_grad()
    def update(averaged_list: Any, current_list: Any, num_averaged: Any) -> None:
        for averaged, current in zip(averaged_list, current_list):
            averaged.copy_(average(averaged, current, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageAll:
    """Return `get_ema_avg_fn` for lists of tensors."""
    return _for_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> AverageAll:
    """Return `get_swa_avg_fn` for lists of tensors."""
    return _for_lists(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of those passed to `update_parameters`."""

    n_averaged: Any

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None, multi_avg_fn: AverageAll | None = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if None not in (avg_fn, multi_avg_fn):
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        copy = deepcopy(model)
        self.module = copy if device is None else copy.to(device)
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers
        self.register_buffer("n_averaged", tensor(0, device=device))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the averaged model's output."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add a model's current parameters to the average; average its buffers too, or copy them."""
        averaged, current = _tensors(self.module, self.use_buffers), _tensors(model, self.use_buffers)
        averaged = [value.detach() for value in averaged]
        current = [value.detach().to(own.device) for value, own in zip(current, averaged)]
        known = values_known(self.n_averaged._array)
        if known and self.n_averaged == 0:
            for own, value in zip(averaged, current):
                own.copy_(value)
        elif self.avg_fn is not None:
            for own, value in zip(averaged, current):
                own.copy_(self.avg_fn(own, value, self.n_averaged))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averaged, current, self.n_averaged)
        if not known:  # in a compiled step the first update is selected by `where`, not by a branch
            for own, value in zip(averaged, current):
                own.copy_(where(self.n_averaged == 0, value, own))
        if not self.use_buffers:
            for own, value in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(value.detach().to(own.device))
        self.n_averaged += 1


def _tensors(model: Module, with_buffers: bool) -> list[Any]:
    return [*model.parameters(), *(model.buffers() if with_buffers else ())]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Run a model over data in training mode, so that its batch norms' running statistics are those of the data."""
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None  # a plain mean over all batches
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch.to(device) if device is not None else batch)
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the learning rate to a constant one, `swa_lr`, over `anneal_epochs` epochs."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: float, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        for lr, group in zip(one_per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, share: float) -> float:
        """Return the annealed fraction of the way to swa_lr."""
        return share if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * share)) / 2

    def _way(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        """Return the learning rates, interpolated between swa_lr and the rates without annealing."""
        warn_outside_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._way(step - 1), self._way(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal, lr = group["swa_lr"], group["lr"]
            origin = goal if before == 1 else (lr - before * goal) / (1 - before)
            rates.append(goal * now + origin * (1 - now))
        return rates
