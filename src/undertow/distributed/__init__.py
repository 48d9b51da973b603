"""`torch.distributed` on JAX's multi-process runtime: process groups, collectives, stores.

Nothing is imported before it is used. JAX is imported by
`init_process_group` in a world of several ranks.
"""

from __future__ import annotations

import os

from undertow._src.base.lazy import lazy_names
from undertow._src.distributed.names import NAMES

_MODULES = (
    "_functional_collectives", "algorithms", "autograd", "checkpoint", "constants", "device_mesh", "distributed_c10d",
    "fsdp", "nn", "optim", "rpc", "tensor",
)  # fmt: skip
_MESHES = dict.fromkeys(("DeviceMesh", "init_device_mesh"), "undertow.distributed.device_mesh")

__all__ = [
    *(name for name in NAMES if not name.startswith("_")), *_MESHES, "is_gloo_available", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
]  # fmt: skip


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_gloo_available() -> bool:
    """Whether Gloo is available, in JAX."""
    return __getattr__("is_available")()


def is_nccl_available() -> bool:
    """Whether NCCL is available: no."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


__getattr__, __dir__ = lazy_names(
    __name__, {**NAMES, **_MESHES, **{name: f"undertow.distributed.{name}" for name in _MODULES}}
)
