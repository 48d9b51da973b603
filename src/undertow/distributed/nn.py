"""`torch.distributed.nn`: collectives that gradients flow through. There is no process group for them."""

from undertow.distributed import all_gather as all_gather
from undertow.distributed import all_reduce as all_reduce
from undertow.distributed import broadcast as broadcast
from undertow.distributed import gather as gather
from undertow.distributed import reduce as reduce
from undertow.distributed import reduce_scatter as reduce_scatter
from undertow.distributed import scatter as scatter
