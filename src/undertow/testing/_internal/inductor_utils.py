"""Facts for tests about PyTorch's compiler inductor and GPUs, which are not available."""

from __future__ import annotations

import unittest
from typing import Any

HAS_CPU = HAS_GPU = HAS_CUDA = HAS_XPU = HAS_MPS = HAS_TPU = HAS_MULTIGPU = HAS_TRITON = HAS_PALLAS = HAS_HELION = False
HAS_CUDA_AND_TRITON = HAS_XPU_AND_TRITON = HAS_GPU_AND_TRITON = TRITON_HAS_CPU = False
RUN_CPU = RUN_GPU = RUN_TPU = IS_A100 = IS_H100 = IS_BIG_GPU = IS_CI = False
GPU_TYPE = "cuda"

requires_gpu = unittest.skip("requires gpu")
requires_triton = unittest.skip("requires triton")
requires_helion = unittest.skip("requires helion")


def requires_gpu_with_enough_memory(min_mem_required: int) -> Any:
    """Decorate a test for large GPUs."""
    return unittest.skip(f"requires a gpu with {min_mem_required} bytes")


def test_cpu() -> bool:
    """Whether inductor can compile for the CPU: never."""
    return False


test_cpu.__test__ = False  # type: ignore[attr-defined]
