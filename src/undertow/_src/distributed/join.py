"""`Join`: training on ranks with different numbers of batches. A rank without data answers the others' collectives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

from undertow._src.base.sites import warn
from undertow._src.distributed.functions import all_reduce
from undertow._src.tensor.creation import ones, zeros

_MANY = 1000  # iterations of the others after which a waiting rank warns


class JoinHook:
    """The calls of a rank without data for one `Joinable`: in each iteration of the others, and when all have ended."""

    def main_hook(self) -> None:
        """Answer the collectives of one iteration."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """End the join."""


class _JoinConfig(NamedTuple):
    """The settings of a `Joinable` in a join."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """An object whose collectives a rank without data can answer. It calls `Join.notify_join_context` in each iteration."""

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook that answers for this object; it gets the keyword arguments of `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the join's own collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group of the join's own collectives."""


class Join:
    """A block in which some ranks may run out of data before others."""

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throw = list(joinables), enable, throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        for number, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, number == 0)
        groups = {id(joinable.join_process_group) for joinable in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._group = joinables[0].join_process_group
        self._device = joinables[0].join_device

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._enable or type is not None:
            return
        rounds = 0
        while self._still_training():
            if self._throw:
                all_reduce(ones(1, device=self._device), group=self._group)
                raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
            if rounds == _MANY:
                warn(
                    f"Rank {self._group.rank()} has waited for {_MANY} iterations of other ranks: its share of the data is "
                    "much smaller than theirs."
                )
            for hook in self._hooks:
                hook.main_hook()
            rounds += 1
        for hook in self._hooks:
            hook.post_hook(rounds == 0)

    def _still_training(self) -> int:
        """Return how many ranks are in an iteration: each of them joins this collective when it begins."""
        count = zeros(1, device=self._device)
        all_reduce(count, group=self._group)
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell the ranks without data that an iteration begins; return the handle of that collective."""
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(f"{type(joinable)} has to call Joinable.__init__() in its own")
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = all_reduce(ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = zeros(1, device=device)
            all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs: the join ends on all ranks.")
        return work
