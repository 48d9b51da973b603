"""`torch._lobpcg`: some eigenvectors, by PyTorch's module name."""

from undertow._lowrank import lobpcg as lobpcg

__all__ = ["lobpcg"]
