"""`torch.autograd._functions`: functions that PyTorch once wrote in Python."""

from undertow.autograd._functions.tensor import Resize as Resize
from undertow.autograd._functions.tensor import Type as Type
