"""`torch.distributed.tensor.parallel`: the layers of a module split over ranks (tensor parallelism)."""

from undertow.distributed.tensor.parallel.api import parallelize_module
from undertow.distributed.tensor.parallel.style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel", "parallelize_module",
]  # fmt: skip
