"""`torch.distributed.algorithms`: joins, and communication hooks of `DistributedDataParallel`."""

from undertow._src.distributed.join import Join as Join
from undertow._src.distributed.join import Joinable as Joinable
from undertow._src.distributed.join import JoinHook as JoinHook
