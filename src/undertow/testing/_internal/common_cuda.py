"""Facts about GPUs for tests: there is none."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from undertow._src.base.modes import no_grad
from undertow._src.types.dtypes import float32
from undertow.nn import Linear, MSELoss, Sequential
from undertow.optim import SGD
from undertow.random import randn

TEST_CUDA = TEST_CUDNN = TEST_MULTIGPU = TEST_WITH_ROCM = TEST_XPU = TEST_NUMBA = TEST_NUMBA_CUDA = False
TEST_CUSPARSE_GENERIC = TEST_HIPSPARSE_GENERIC = CUDA_ALREADY_INITIALIZED_ON_IMPORT = False
TEST_CUDNN_VERSION, CUDA_DEVICE, ROCM_VERSION, TRITON_PTXAS_VERSION = 0, None, (0, 0), (12, 8)
SM53OrLater = SM60OrLater = SM70OrLater = SM75OrLater = SM80OrLater = SM89OrLater = SM90OrLater = SM100OrLater = False
SM120OrLater = IS_SM89 = IS_SM90 = IS_SM100 = IS_SM10X = IS_SM12X = IS_JETSON = IS_THOR = False
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = PLATFORM_SUPPORTS_CUDNN_ATTENTION = False
PLATFORM_SUPPORTS_FUSED_ATTENTION = PLATFORM_SUPPORTS_FUSED_SDPA = PLATFORM_SUPPORTS_BF16 = PLATFORM_SUPPORTS_FP8 = (
    False
)
PLATFORM_SUPPORTS_MX_GEMM = PLATFORM_SUPPORTS_HALF_ATOMICS = PLATFORM_SUPPORTS_BF16_ATOMICS = False
PLATFORM_SUPPORTS_CK_SDPA = PLATFORM_SUPPORTS_FP8_GROUPED_GEMM = PLATFORM_SUPPORTS_FP8_SPARSE = False
PLATFORM_SUPPORTS_GREEN_CONTEXT = PLATFORM_SUPPORTS_MXFP8_GROUPED_GEMM = PLATFORM_SUPPORTS_WORKQUEUE_CONFIG = False


def _no(*args: Any) -> bool:
    return False


CDNA2OrLater = CDNA3OrLater = evaluate_gfx_arch_within = _check_cusparse_generic_available = _no
_check_hipsparse_generic_available = evaluate_platform_supports_bf16 = evaluate_platform_supports_bf16_atomics = _no
evaluate_platform_supports_ck_sdpa = evaluate_platform_supports_cudnn_attention = _no
evaluate_platform_supports_efficient_attention = evaluate_platform_supports_flash_attention = _no
evaluate_platform_supports_fp8 = evaluate_platform_supports_fp8_grouped_gemm = evaluate_platform_supports_fp8_sparse = (
    _no
)
evaluate_platform_supports_green_context = evaluate_platform_supports_half_atomics = _no
evaluate_platform_supports_mx_gemm = evaluate_platform_supports_mxfp8_grouped_gemm = _no
evaluate_platform_supports_workqueue_config = _no


def _get_torch_cuda_version() -> tuple[int, int]:
    return 0, 0


_get_torch_rocm_version = _get_magma_version = _get_torch_hipblaslt_version = _get_torch_cuda_version


def initialize_cuda_context_rng() -> None:
    """Do nothing: there is no CUDA generator."""


@contextlib.contextmanager
def tf32_off() -> Iterator[None]:
    """Return a block without TF32, which has no effect on the CPU."""
    yield


tf32_on = tf32_enabled = tf32_off


def tf32_on_and_off(tf32_precision: float = 1e-5, **options: Any) -> Callable[[Any], Any]:
    """Decorate a test to run with and without TF32: here it runs once, without."""
    return lambda test: test


def with_tf32_off(test: Any) -> Any:
    return test


xfailIfSM89 = xfailIfSM90 = xfailIfSM100OrLater = xfailIfSM120OrLater = xfailIfDistributedNotSupported = with_tf32_off
xfailIfSM12X = xfailIfSM89PreCUDA13 = xfailCUDAIfSM89OrLaterOnWindows = _xfail_cuda_on_windows_wrapper = with_tf32_off


def requires_triton_ptxas_compat(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    return unittest.skip("Requires Triton")


@contextlib.contextmanager
def blas_library_context(backend: Any) -> Iterator[None]:
    """Return a block with a different BLAS library for GPUs, which has no effect on the CPU."""
    yield


# --- two equal models, for tests of gradient scaling


def _create_scaling_models_optimizers(
    device: Any = "cpu", optimizer_ctor: Any = SGD, optimizer_kwargs: dict[str, Any] | None = None
) -> tuple[Any, Any, Any, Any]:
    """Return two small models with equal parameters, and an optimizer for each."""
    model, scaled = [Sequential(Linear(8, 8), Linear(8, 8)).to(device=device) for _ in range(2)]
    with no_grad():
        for one, other in zip(model.parameters(), scaled.parameters(), strict=True):
            other.copy_(one)
    options = {"lr": 1.0, **(optimizer_kwargs or {})}
    return model, scaled, optimizer_ctor(model.parameters(), **options), optimizer_ctor(scaled.parameters(), **options)


def _create_scaling_case(
    device: Any = "cpu", dtype: Any = float32, optimizer_ctor: Any = SGD, optimizer_kwargs: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    """Return two models with their optimizers, four batches, a loss, and the index of the batch to make infinite."""
    data = [(randn((8, 8), dtype=dtype, device=device), randn((8, 8), dtype=dtype, device=device)) for _ in range(4)]
    return (*_create_scaling_models_optimizers(device, optimizer_ctor, optimizer_kwargs), data, MSELoss().to(device), 2)
