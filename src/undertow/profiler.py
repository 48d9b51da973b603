"""`torch.profiler`: the names that programs give to stretches of themselves."""

from __future__ import annotations

from enum import Enum

from undertow.autograd.profiler import record_function as record_function

__all__ = ["ProfilerActivity", "record_function"]


class ProfilerActivity(Enum):
    """What a profiler looks at."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5
