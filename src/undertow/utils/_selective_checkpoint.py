"""Selective checkpointing: some operators of a checkpointed function keep their results, the others are recomputed.

Two modes share one record: the first run stores each operator's result, or that it must be recomputed; the second run
reads the record, operator by operator, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from undertow import _ops
from undertow._src.base.tree import map_leaves
from undertow._src.tensor.core import TensorCore
from undertow.utils._python_dispatch import TorchDispatchMode

_aten: Any = _ops.namespace("aten")
SAC_IGNORED_OPS = {_aten.detach.default}  # these cost nothing


class CheckpointPolicy(Enum):
    """What happens to an operator's result. Without a compiler MUST and PREFER are the same."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_KEPT = frozenset(policy for policy in CheckpointPolicy if "RECOMPUTE" not in policy.name)


class SelectiveCheckpointContext:
    """The context of a policy: whether this is the second run, and the operator's result."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept:
    """A stored result; reading it raises if the tensor was written to since."""

    def __init__(self, value: Any) -> None:
        self.value = value.detach() if isinstance(value, TensorCore) else value
        self.version = value._version if isinstance(value, TensorCore) else None

    def take(self, even_if_written: bool) -> Any:
        if self.version is not None and not even_if_written and self.value._version != self.version:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.value


_COMPUTE_AGAIN = object()
Record = dict[Any, list[Any]]


class _CachingTorchDispatchMode(TorchDispatchMode):
    """The first run: stores the results that the policy keeps."""

    def __init__(self, policy_fn: Callable[..., Any], record: Record) -> None:
        super().__init__()
        self.policy_fn, self.record = policy_fn, record

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return out
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        policy = self.policy_fn(context, func, *args, **kwargs)
        keeps = policy if isinstance(policy, bool) else policy in _KEPT
        self.record.setdefault(func, []).append(map_leaves(_Kept, out) if keeps else _COMPUTE_AGAIN)
        return out


class _CachedTorchDispatchMode(TorchDispatchMode):
    """The second run: reads stored results, and runs the other operators."""

    def __init__(self, policy_fn: Callable[..., Any], record: Record, allow_cache_entry_mutation: bool) -> None:
        super().__init__()
        self.policy_fn, self.record, self.even_if_written = policy_fn, record, allow_cache_entry_mutation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in SAC_IGNORED_OPS:
            return func(*args, **(kwargs or {}))
        entries = self.record.get(func)
        if entries is None:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        if not entries:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed one backward through a region under selective "
                "checkpoint: it frees what the region kept."
            )
        entry = entries.pop(0)
        if entry is _COMPUTE_AGAIN:
            return func(*args, **(kwargs or {}))
        return map_leaves(lambda kept: kept.take(self.even_if_written), entry)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """Return the two contexts of a selective checkpoint, for `checkpoint(..., context_fn=...)`.

    `policy_fn(ctx, op, *args, **kwargs)` returns a `CheckpointPolicy` for each operator; a list names those whose results
    are kept.

    >>> import functools
    >>> from undertow.utils.checkpoint import checkpoint
    >>> layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    >>> keep_products = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    >>> context_fn = functools.partial(create_selective_checkpoint_contexts, keep_products)
    >>> out = checkpoint(layer, x, use_reentrant=False, context_fn=context_fn)
    >>> out.sum().backward()
    >>> x.grad.shape
    torch.Size([1, 2])
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, _ops.OpOverload):
                more = ""
                if isinstance(op, _ops.OpOverloadPacket):
                    more = (
                        f"Please update the OpOverloadPacket to a specific OpOverload, such as "
                        f"`torch.ops.{op}.default`."
                    )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {more}"
                )
        kept = set(policy_fn_or_list)

        def policy_fn(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy_fn = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    record: Record = {}
    return (
        _CachingTorchDispatchMode(policy_fn, record),
        _CachedTorchDispatchMode(policy_fn, record, allow_cache_entry_mutation),
    )
