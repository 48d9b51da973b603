"""Steps that every rank takes: each learns whether a step failed on any rank, and then all raise the same error."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from undertow._src.base.sites import PACKAGE
from undertow._src.distributed.objects import gathered_objects
from undertow._src.distributed.state import default_group, member
from undertow.distributed.checkpoint.api import CheckpointException


class Failure:
    """An error of one rank, in a form that can be sent."""

    def __init__(self, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        self.stack = traceback.StackSummary.from_list(
            [each for each in frames if not each.filename.startswith(PACKAGE)]
        )
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            pickle.loads(pickle.dumps(self.error))
            error = self.error
        except Exception:
            error = RuntimeError(f"{type(self.error).__name__}: {self.error}")
        return _failure, (error, [(each.filename, each.lineno, each.name, each.line) for each in self.stack])


def _failure(error: BaseException, stack: list[Any]) -> Failure:
    made = Failure(error)
    made.stack = traceback.StackSummary.from_list(stack)
    return made


def attempt(step: Callable[..., Any], *args: Any) -> Any:
    """Return a step's result, or the `Failure` of this rank."""
    try:
        return step(*args)
    except BaseException as error:
        return Failure(error)


class Agreement:
    """The ranks of a group that save or load together; one of them is the coordinator."""

    def __init__(self, group: Any, is_alone: bool, coordinator: int = 0) -> None:
        self.group = None if is_alone else (default_group() if group is None else member(group))
        self.rank = 0 if self.group is None else self.group.rank()
        self.coordinator = 0 if self.group is None else coordinator
        self.is_coordinator = self.rank == self.coordinator

    def _everywhere(self, name: str, value: Any) -> list[Any]:
        """Return what each rank gives."""
        return [value] if self.group is None else gathered_objects(self.group, name, value)

    def all(self, name: str, step: Callable[[], Any]) -> list[Any]:
        """Take a step on every rank; return all results."""
        results = self._everywhere(name, attempt(step))
        failures = {rank: each for rank, each in enumerate(results) if isinstance(each, Failure)}
        if failures:
            raise CheckpointException(name, {rank: (each.error, each.stack) for rank, each in failures.items()})
        return results

    def once(self, name: str, step: Callable[[], Any]) -> Any:
        """Take a step on the coordinator; return its result on every rank."""
        return self.all(name, step if self.is_coordinator else lambda: None)[self.coordinator]
