"""A GPU that is not there: `cuda` tensors that JAX keeps on the CPU, drawn as an H200 would draw them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import pytest

import undertow._src.compile.compiled
import undertow.cuda
import undertow.utils.checkpoint  # noqa: F401
from undertow._src.arrays.device import placement
from undertow._src.arrays.device.launch import Gpu
from undertow._src.arrays.jax import ptx
from undertow._src.random import cuda_stream, generators

H200 = Gpu(132, 2048)


@contextmanager
def pretended_gpu(gpu: Gpu = H200) -> Iterator[None]:
    """Have undertow find one GPU inside the block."""
    real_gpus, real_device = placement.gpus, placement.jax_device
    with pytest.MonkeyPatch.context() as patch:
        for module in list(sys.modules.values()):
            if getattr(module, "gpus", None) is real_gpus and module is not ptx:
                patch.setattr(module, "gpus", lambda: 1)
            if getattr(module, "jax_device", None) is real_device:
                patch.setattr(module, "jax_device", lambda device: jax.devices("cpu")[0])
        patch.setattr(cuda_stream, "gpu_of", lambda device: gpu)
        patch.setattr(generators._CudaDefaults, "generators", None)
        patch.setattr(generators._CudaDefaults, "seeds", {})
        yield
        gc.collect()
