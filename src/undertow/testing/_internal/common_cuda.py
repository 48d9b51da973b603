"""What tests ask about GPUs: there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

TEST_CUDA = TEST_CUDNN = TEST_MULTIGPU = TEST_WITH_ROCM = TEST_XPU = TEST_NUMBA = TEST_NUMBA_CUDA = False
TEST_CUSPARSE_GENERIC = TEST_HIPSPARSE_GENERIC = CUDA_ALREADY_INITIALIZED_ON_IMPORT = False
TEST_CUDNN_VERSION, CUDA_DEVICE, ROCM_VERSION = 0, None, (0, 0)
SM53OrLater = SM60OrLater = SM70OrLater = SM75OrLater = SM80OrLater = SM89OrLater = SM90OrLater = SM100OrLater = False
SM120OrLater = IS_SM89 = IS_SM90 = IS_SM100 = IS_JETSON = IS_THOR = False
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = PLATFORM_SUPPORTS_CUDNN_ATTENTION = False
PLATFORM_SUPPORTS_FUSED_ATTENTION = PLATFORM_SUPPORTS_FUSED_SDPA = PLATFORM_SUPPORTS_BF16 = PLATFORM_SUPPORTS_FP8 = False
PLATFORM_SUPPORTS_MX_GEMM = PLATFORM_SUPPORTS_HALF_ATOMICS = PLATFORM_SUPPORTS_BF16_ATOMICS = False


def _get_torch_cuda_version() -> tuple[int, int]:
    return 0, 0


_get_torch_rocm_version = _get_magma_version = _get_torch_cuda_version


def initialize_cuda_context_rng() -> None:
    """Nothing to initialise."""


@contextlib.contextmanager
def tf32_off() -> Iterator[None]:
    """A block without a number format of some GPUs."""
    yield


tf32_on = tf32_enabled = tf32_off


def tf32_on_and_off(tf32_precision: float = 1e-5, **options: Any) -> Callable[[Any], Any]:
    """Runs a test with and without that format: once, without."""
    return lambda test: test


def with_tf32_off(test: Any) -> Any:
    return test


xfailIfSM89 = xfailIfSM90 = xfailIfSM100OrLater = xfailIfSM120OrLater = xfailIfDistributedNotSupported = with_tf32_off
