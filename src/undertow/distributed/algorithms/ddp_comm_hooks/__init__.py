"""`torch.distributed.algorithms.ddp_comm_hooks`: communication hooks for `DistributedDataParallel`, by name."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from undertow.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class _Choice(NamedTuple):
    hook: Callable[[Any, Any], Any]
    columns: int = 0  # of PowerSGD's matrices


class DDPCommHookType(Enum):
    """The communication hooks by name; a member's value has the hook."""

    ALLREDUCE = _Choice(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Choice(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Choice(default_hooks.bf16_compress_hook)
    POWER_SGD = _Choice(powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _Choice(powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _Choice(powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _Choice(powerSGD_hook.batched_powerSGD_hook, 2)
    POST_LOCAL_SGD = _Choice(post_localSGD_hook.post_localSGD_hook)
    NOOP = _Choice(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook with a model. PowerSGD hooks make their own state."""
    chosen = comm_hook_type.value
    if chosen.columns:
        state = powerSGD_hook.PowerSGDState(state, chosen.columns)
    model.register_comm_hook(state, chosen.hook)
