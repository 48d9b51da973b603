"""`torch.distributed.constants`: how long groups wait by default."""

from __future__ import annotations

from datetime import timedelta

from undertow._src.distributed.state import default_pg_timeout as default_pg_timeout

__all__ = ["default_pg_timeout", "default_pg_nccl_timeout"]

default_pg_nccl_timeout: timedelta | None = None  # there is no NCCL
