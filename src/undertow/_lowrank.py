"""`torch._lowrank`: some singular vectors, by PyTorch's module name."""

from undertow.low_rank import get_approximate_basis as get_approximate_basis
from undertow.low_rank import pca_lowrank as pca_lowrank
from undertow.low_rank import svd_lowrank as svd_lowrank

__all__ = ["pca_lowrank", "svd_lowrank"]
_svd_lowrank = svd_lowrank
