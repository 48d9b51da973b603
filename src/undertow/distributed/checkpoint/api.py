"""The error of a save or a load."""

from __future__ import annotations

import traceback
from typing import Any

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """The errors of all ranks that failed, raised on every rank."""

    def __init__(self, msg: str, failures: dict[int, tuple[BaseException, traceback.StackSummary]]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, tuple[BaseException, Any]]:
        """The error of each rank that failed, and the lines of its traceback."""
        return self._failures

    def __str__(self) -> str:
        text = [f"CheckpointException ranks:{self._failures.keys()}"]
        for rank, (error, stack) in self._failures.items():
            text.append(f"Traceback (most recent call last): (RANK {rank})")
            text.extend(line.rstrip() for line in stack.format())
            text.extend(line.rstrip() for line in traceback.format_exception_only(type(error), error))
        return "\n".join(text) + "\n"
