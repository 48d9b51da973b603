"""Sampling, after the steps that are watched in full: check gradients for NaN and Inf, in a small part of the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from undertow.why.trace import LaterRecord

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

_SHARE = 0.02  # of the program's time


class LaterSteps:
    """Checks the gradients before optimizer steps, as often as the share of time allows."""

    def __init__(self, watcher: Watcher, done: int) -> None:
        self.watcher = watcher
        self.trace = watcher.trace
        self.trace.later = self.record = LaterRecord(done)
        self._began = time.perf_counter()
        self._spent = 0.0

    def step(self, optimizer: Any) -> None:
        """Check the gradients of a step that is about to run."""
        record = self.record
        number = self.watcher.optimizers.done.get(optimizer, 0) + 1
        record.steps = max(record.steps, number)
        start = time.perf_counter()
        if record.bad is not None or self._spent > _SHARE * (start - self._began):
            return
        watcher = self.watcher
        for tensor in [tensor for group in optimizer.param_groups for tensor in group["params"]]:
            if tensor.grad is not None and not watcher.engine.is_finite(tensor.grad):
                known = watcher.tensors.find(tensor)
                record.bad = number, None if known is None else known.id, watcher.here()
                break
        self._spent += time.perf_counter() - start
