"""`torch.autograd.profiler_legacy`: an older name of the profiler."""

from undertow.autograd.profiler import MEMORY_EVENT_NAME as MEMORY_EVENT_NAME
from undertow.autograd.profiler import EventList as EventList
from undertow.autograd.profiler import FunctionEvent as FunctionEvent
from undertow.autograd.profiler import profile as profile

__all__ = ["profile"]
