"""The kind of device for which a program is being traced: what is fastest differs, and a trace does not show its device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from undertow._src.arrays.device.memory import Target


def options_for(platform: str) -> dict[str, bool]:
    """Return XLA's options for a program: by default it may skip a rounding to bfloat16 between two operations.

    On devices other than the CPU it may, as their own libraries do.
    """
    return {"xla_allow_excess_precision": False} if platform == "cpu" else {}


@contextmanager
def traced_for(platform: str) -> Iterator[None]:
    """Trace for this platform inside the block."""
    before, Target.platform = Target.platform, platform
    try:
        yield
    finally:
        Target.platform = before
