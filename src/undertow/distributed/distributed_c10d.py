"""`torch.distributed.distributed_c10d`: the functions of `torch.distributed`, where PyTorch defines them."""

from undertow._src.base.lazy import lazy_names
from undertow._src.distributed.names import NAMES

_QUERIES = ("is_gloo_available", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched")

__getattr__, __dir__ = lazy_names(__name__, {**NAMES, **dict.fromkeys(_QUERIES, "undertow.distributed")})
