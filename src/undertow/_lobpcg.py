"""`torch._lobpcg`: some eigenvectors, by PyTorch's module name."""

from undertow.low_rank import lobpcg as lobpcg

__all__ = ["lobpcg"]
