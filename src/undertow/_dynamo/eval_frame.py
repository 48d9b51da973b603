"""`torch._dynamo.eval_frame`: where packages look for the class of compiled modules."""

from undertow._dynamo import OptimizedModule as OptimizedModule
from undertow.compiler import disable as disable

__all__ = ["OptimizedModule", "disable"]
