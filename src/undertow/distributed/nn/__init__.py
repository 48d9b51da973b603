"""`torch.distributed.nn`: collectives with gradients."""

from undertow.distributed.nn.functional import (
    all_gather as all_gather,
)  # fmt: skip
from undertow.distributed.nn.functional import (
    all_reduce as all_reduce,
)
from undertow.distributed.nn.functional import (
    all_to_all as all_to_all,
)
from undertow.distributed.nn.functional import (
    all_to_all_single as all_to_all_single,
)
from undertow.distributed.nn.functional import (
    broadcast as broadcast,
)
from undertow.distributed.nn.functional import (
    gather as gather,
)
from undertow.distributed.nn.functional import (
    reduce as reduce,
)
from undertow.distributed.nn.functional import (
    reduce_scatter as reduce_scatter,
)
from undertow.distributed.nn.functional import (
    scatter as scatter,
)
