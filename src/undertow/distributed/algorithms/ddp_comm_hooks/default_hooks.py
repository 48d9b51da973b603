"""`torch.distributed.algorithms.ddp_comm_hooks.default_hooks`: the mean of gradients, also in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.distributed.comm_hooks import allreduce_hook as allreduce_hook
from undertow._src.distributed.comm_hooks import bf16_compress_hook as bf16_compress_hook
from undertow._src.distributed.comm_hooks import fp16_compress_hook as fp16_compress_hook
from undertow._src.distributed.comm_hooks import wrapped
from undertow._src.types.dtypes import bfloat16, float16

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip

Hook = Callable[[Any, Any], Any]


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that runs the given hook on gradients in float16."""
    return wrapped(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that runs the given hook on gradients in bfloat16."""
    return wrapped(hook, bfloat16)
