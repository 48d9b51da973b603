"""`torch.utils.deterministic`: whether uninitialized memory is filled, so that reading it is deterministic."""

from __future__ import annotations

import sys
from types import ModuleType

from undertow._src.base.modes import Deterministic


class _Settings(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether memory is filled while deterministic algorithms are on."""
        return Deterministic.fills_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        Deterministic.fills_memory = mode


sys.modules[__name__].__class__ = _Settings
