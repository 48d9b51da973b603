"""`torch.multiprocessing`: Python's multiprocessing, and `spawn`.

Tensors are sent between processes by value: a receiver gets a copy, not the sender's memory.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from undertow.multiprocessing.reductions import init_reductions as init_reductions
from undertow.multiprocessing.spawn import ProcessContext as ProcessContext
from undertow.multiprocessing.spawn import ProcessException as ProcessException
from undertow.multiprocessing.spawn import ProcessExitedException as ProcessExitedException
from undertow.multiprocessing.spawn import ProcessRaisedException as ProcessRaisedException
from undertow.multiprocessing.spawn import SpawnContext as SpawnContext
from undertow.multiprocessing.spawn import spawn as spawn
from undertow.multiprocessing.spawn import start_processes as start_processes

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip

_sharing = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the names that `set_sharing_strategy` accepts; tensors are copied under all of them."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    return _sharing


def set_sharing_strategy(new_strategy: str) -> None:
    """Store the name; tensors are copied under all of them."""
    global _sharing
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}")
    _sharing = new_strategy
