"""`torch.multiprocessing.pool`: Python's pool of processes."""

from multiprocessing.pool import Pool

__all__ = ["Pool"]
