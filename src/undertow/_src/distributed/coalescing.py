"""`_coalescing_manager`: a block whose collectives are waited for together."""

from __future__ import annotations

import threading
from typing import Any

from undertow._src.distributed.work import Work

_open = threading.local()


class CoalescingManager:
    """The collectives of a block. Each starts at once; the block, or `wait()`, waits for all."""

    def __init__(self, async_ops: bool) -> None:
        self.works: list[Work] = []
        self._async = async_ops

    def append(self, work: Work) -> None:
        self.works.append(work)

    def wait(self) -> None:
        for work in self.works:
            work.wait()

    def __enter__(self) -> CoalescingManager:
        self._before, _open.manager = getattr(_open, "manager", None), self
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        _open.manager = self._before
        if not self._async and kind is None:
            self.wait()


def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> CoalescingManager:
    """Begin a block of collectives that are waited for together."""
    return CoalescingManager(async_ops)


def current() -> CoalescingManager | None:
    """Return the manager of the block that this thread is in."""
    return getattr(_open, "manager", None)
