"""Which kernels attention may use. undertow has one, so the choice is noted and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from undertow.backends import cuda

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(Enum):
    """PyTorch's kernels for scaled dot product attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value


_KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "math": SDPBackend.MATH,
    "mem_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Inside, PyTorch's attention uses only the given kernels; undertow's is the same everywhere."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    wanted = backends if isinstance(backends, list) else [backends]
    before = dict(cuda.attention_kernels)
    cuda.attention_kernels.update({name: kernel in wanted for name, kernel in _KERNELS.items()})
    try:
        yield
    finally:
        cuda.attention_kernels.update(before)
