"""`torch._subclasses`: fake tensors, which undertow's compiler does not use."""

from undertow._subclasses.fake_tensor import FakeTensor as FakeTensor
from undertow._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
