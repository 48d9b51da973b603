"""`torch.distributed.optim`: optimizers whose state is split over ranks."""

from undertow._src.base.lazy import lazy_names

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "PostLocalSGDOptimizer": "undertow.distributed.optim.post_localSGD_optimizer",
        "ZeroRedundancyOptimizer": "undertow.distributed.optim.zero_redundancy_optimizer",
        "zero_redundancy_optimizer": "undertow.distributed.optim.zero_redundancy_optimizer",
    },
)
