"""`torch._subclasses`: tensors that are made up for a compiler, which has none here."""

from undertow._subclasses.fake_tensor import FakeTensor as FakeTensor
from undertow._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
