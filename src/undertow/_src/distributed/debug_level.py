"""The debug level of `torch.distributed`. It changes nothing: collectives are always compared between ranks."""

from __future__ import annotations

import os
from enum import Enum


class DebugLevel(Enum):
    """How much PyTorch checks and logs."""

    __module__ = "torch.distributed"

    OFF = 0
    INFO = 1
    DETAIL = 2


_current: list[DebugLevel] = []


def get_debug_level() -> DebugLevel:
    """Return the level that was set, at first by the variable TORCH_DISTRIBUTED_DEBUG."""
    if not _current:
        set_debug_level_from_env()
    return _current[0]


def set_debug_level(level: DebugLevel) -> None:
    """Set the level."""
    _current[:] = [level]


def set_debug_level_from_env() -> None:
    """Set the level to the one in the variable TORCH_DISTRIBUTED_DEBUG."""
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, not {name}")
    set_debug_level(DebugLevel[name])
