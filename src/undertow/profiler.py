"""`torch.profiler`: the names that programs give to stretches of themselves."""

from __future__ import annotations

from enum import Enum
from typing import Any

from undertow.autograd.profiler import record_function as record_function

__all__ = ["ProfilerActivity", "profile", "record_function"]


class ProfilerActivity(Enum):
    """What a profiler looks at."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class profile:
    """A profiler, for packages that ask whether something is one. Python's own profilers see all of undertow."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("undertow has no torch.profiler.profile: Python's cProfile sees every function of undertow")
