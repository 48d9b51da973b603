"""Which kernels attention may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from undertow.backends import cuda
from undertow.backends.cuda import SDPAParams as SDPAParams
from undertow.backends.cuda import can_use_efficient_attention as can_use_efficient_attention
from undertow.backends.cuda import can_use_flash_attention as can_use_flash_attention

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


WARN_FOR_UNFUSED_KERNELS = False
_backend_names = {
    "cudnn": "CUDNN_ATTENTION",
    "flash": "FLASH_ATTENTION",
    "mem_efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
    "overrideable": "OVERRIDEABLE",
}
_ORDER = [  # orders of preference: PyTorch's default, and those set by `sdpa_kernel` blocks
    [SDPBackend[name] for name in "FLASH_ATTENTION EFFICIENT_ATTENTION MATH CUDNN_ATTENTION OVERRIDEABLE".split()]
]


def _backend_from_string(name: str) -> SDPBackend:
    return SDPBackend[name]


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """Return the kernels that attention may use now; with `with_priority`, the preferred one first."""
    allowed = [SDPBackend[name] for kernel, name in _backend_names.items() if cuda.attention_kernels[kernel]]
    if with_priority:
        allowed.sort(key=_ORDER[-1].index)
    return allowed


def _raise_kernel_warnings(params: SDPAParams) -> None:
    """Warn why a GPU's fused kernels are not used, if `WARN_FOR_UNFUSED_KERNELS` is set."""
    if WARN_FOR_UNFUSED_KERNELS:
        can_use_efficient_attention(params, True)
        can_use_flash_attention(params, True)


@contextmanager
def sdpa_kernel(backends: SDPBackend | list[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Allow only the given kernels inside the block. The CPU has two: `FLASH_ATTENTION` and `MATH`."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    wanted = backends if isinstance(backends, list) else [backends]
    before = dict(cuda.attention_kernels)
    cuda.attention_kernels.update({kernel: SDPBackend[name] in wanted for kernel, name in _backend_names.items()})
    if set_priority:
        _ORDER.append([*wanted, *[each for each in _ORDER[-1] if each not in wanted]])
    try:
        yield
    finally:
        cuda.attention_kernels.update(before)
        if set_priority:
            _ORDER.pop()


def _sdpa_kernel_variadic(*backends: SDPBackend) -> Any:
    return sdpa_kernel(list(backends))
