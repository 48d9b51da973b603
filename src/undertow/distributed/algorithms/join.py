"""`torch.distributed.algorithms.join`: training on ranks with different numbers of batches."""

from undertow._src.distributed.join import Join as Join
from undertow._src.distributed.join import Joinable as Joinable
from undertow._src.distributed.join import JoinHook as JoinHook
from undertow._src.distributed.join import _JoinConfig as _JoinConfig

__all__ = ["Join", "JoinHook", "Joinable"]
