"""The simple communication hooks of DDP: the mean of gradients, sent in their own dtype or in half precision."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from undertow._src.base import hooks
from undertow._src.distributed.buckets import GradBucket
from undertow._src.distributed.functions import all_reduce
from undertow._src.distributed.state import default_group
from undertow._src.types.dtypes import bfloat16, float16
from undertow.futures import Future


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Return the mean of a bucket's gradients."""
    group = process_group if process_group is not None else default_group()
    flat = bucket.buffer().div_(group.size())
    return _first(all_reduce(flat, group=group, async_op=True))


def compressed(process_group: Any, bucket: GradBucket, dtype: Any) -> Future[Any]:
    """Return the mean of a bucket's gradients, computed in another dtype."""
    group = process_group if process_group is not None else default_group()
    flat = bucket.buffer()
    sent = flat.to(dtype).div_(group.size())

    def decompress(done: Future[Any]) -> Any:
        flat.copy_(done.value())
        return flat

    return _first(all_reduce(sent, group=group, async_op=True)).then(decompress)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Return the mean of a bucket's gradients, sent as float16."""
    return compressed(process_group, bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Return the mean of a bucket's gradients, sent as bfloat16."""
    return compressed(process_group, bucket, bfloat16)


def wrapped(hook: Callable[[Any, GradBucket], Future[Any]], dtype: Any) -> Callable[[Any, GradBucket], Future[Any]]:
    """Return a hook that casts the gradients, calls the given hook, and casts its result back."""

    def compress(state: Any, bucket: GradBucket) -> Future[Any]:
        flat = bucket.buffer()
        bucket.set_buffer(flat.to(dtype))

        def decompress(done: Future[Any]) -> Any:
            flat.copy_(done.value())
            return flat

        return hooks.fire(hook, state, bucket).then(decompress)

    return compress


def _first(work: Any) -> Future[Any]:
    return work.get_future().then(lambda done: done.value()[0])


class BuiltinCommHookType(Enum):
    """The hooks that PyTorch has in C++."""

    __module__ = "torch.distributed"

    ALLREDUCE = 0
    FP16_COMPRESS = 1

    @property
    def hook(self) -> Callable[[Any, GradBucket], Future[Any]]:
        return allreduce_hook if self is BuiltinCommHookType.ALLREDUCE else fp16_compress_hook
