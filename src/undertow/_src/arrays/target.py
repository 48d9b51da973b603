"""For which kind of device a program is being traced: what is fastest differs, and a trace does not show where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from undertow._src.arrays.device.memory import Target


def options_for(platform: str) -> dict[str, bool]:
    """XLA's options for a program: it may leave out a rounding to bfloat16 between two operations unless told otherwise.

    On other devices than the CPU it may, as their own libraries do.
    """
    return {"xla_allow_excess_precision": False} if platform == "cpu" else {}


@contextmanager
def traced_for(platform: str) -> Iterator[None]:
    """Inside, traces are for this platform."""
    before, Target.platform = Target.platform, platform
    try:
        yield
    finally:
        Target.platform = before
