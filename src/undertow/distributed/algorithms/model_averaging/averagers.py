"""Averagers: they decide in which steps the parameters of all ranks are averaged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from undertow._src.distributed.state import default_group
from undertow.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Averages the parameters of the ranks of a group in some steps, which it counts."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = process_group if process_group is not None else default_group()
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages after every `period` steps, beginning with step `warmup_steps`."""

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError(f"Arg ``warmup_steps`` must be a non-negative number, not {warmup_steps}.")
        if period < 1:
            raise ValueError(f"Arg ``period`` must be a positive value, not {period}.")
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average parameters or parameter groups if the period is over."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
