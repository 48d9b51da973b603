"""`torch.profiler`: the names that programs give to stretches of themselves."""

from undertow.autograd.profiler import record_function as record_function

__all__ = ["record_function"]
