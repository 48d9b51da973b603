"""An iteration of DDP in a compiled step: forward and backward in one trace.

The eager reducer is not used. When the last gradient of a backward pass has arrived, the program averages all of them,
bucket by bucket. By then hooks have seen this rank's own gradients, as in eager mode.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.base import tracer
from undertow._src.base.hooks import defined, fire
from undertow._src.base.modes import no_grad
from undertow._src.base.sites import PACKAGE
from undertow._src.distributed import collectives, ddp_warnings, in_program
from undertow._src.distributed.buckets import GradBucket, flattened
from undertow._src.distributed.comm_hooks import allreduce_hook, bf16_compress_hook, fp16_compress_hook
from undertow._src.distributed.traced import traced
from undertow._src.engine.engine import queue_callback
from undertow._src.types.dtypes import bfloat16, float16

if TYPE_CHECKING:
    from undertow._src.distributed.buckets import Bucket
    from undertow._src.distributed.reducer import Reducer

# The communication hooks that are part of a program, and the dtype in which they send.
_SENT_AS: dict[Any, Any] = {
    None: None, allreduce_hook: None, fp16_compress_hook: float16.numpy, bf16_compress_hook: bfloat16.numpy,
}  # fmt: skip


class _Iteration:
    """The gradients that have arrived since a forward in the current trace."""

    def __init__(self, reducer: Reducer, is_local: bool) -> None:
        self.reducer, self.is_local = reducer, is_local
        self.epoch = tracer.epoch
        self.ready: set[int] = set()
        self.is_over = is_local


_iterations: dict[int, _Iteration] = {}  # by the id of the reducer


def begin(reducer: Reducer, is_local: bool = False) -> None:
    """Begin an iteration: a forward of this trace has ended."""
    stop = tracer.running().collectives.refuse
    hook = reducer.comm_hook
    if hook not in _SENT_AS and not is_local and _is_own(hook):
        name = getattr(hook, "__name__", type(hook).__name__)
        stop(f"the communication hook {name} can't be part of a compiled step: it has state, or calls another hook")
    if not is_local and hook not in _SENT_AS and not _are_buckets_settled(reducer):
        stop(
            "a communication hook gets other buckets after the first iteration, and a compiled step has the same ones in "
            "each. Call the step twice without undertow.compile first." + defined(hook)  # type: ignore[arg-type]
        )
    if not is_local and any(reducer.sparse):
        stop("DistributedDataParallel with sparse gradients can't be compiled yet")
    iteration = _iterations[id(reducer)] = _Iteration(reducer, is_local)
    tracer.running().collectives.at_end(lambda: _check(iteration))


def _are_buckets_settled(reducer: Reducer) -> bool:
    """Whether a communication hook gets the same buckets in every iteration from now on."""
    if reducer.is_rebuilt or (reducer.find_unused and not reducer.static_graph):
        return True
    total = sum([param.numel() * param.element_size() for param in reducer.params])
    return len(reducer.buckets) == 1 and total <= reducer.limits[0]


def _is_own(hook: Any) -> bool:
    """Whether a communication hook is one of undertow's, whose effects are not analyzed."""
    while isinstance(hook, partial):
        hook = hook.func
    function = getattr(hook, "__func__", hook if hasattr(hook, "__code__") else type(hook).__call__)
    code = getattr(function, "__code__", None)
    return code is None or code.co_filename.startswith(PACKAGE)


def arrived(reducer: Reducer, index: int) -> None:
    """Take a parameter's gradient, which the trace has just accumulated."""
    iteration = _iterations.get(id(reducer))
    if iteration is None or iteration.epoch != tracer.epoch or iteration.reducer is not reducer:
        if reducer.is_expecting:
            tracer.running().collectives.refuse(
                "a backward pass of DistributedDataParallel whose forward is not in the compiled step. Compile both in one"
            )
        ddp_warnings.warn_of_local_gradient(reducer, index)
    elif iteration.is_over:
        if not iteration.is_local:
            ddp_warnings.warn_of_local_gradient(reducer, index)
    else:
        if index in iteration.ready and not reducer.static_graph:
            ddp_warnings.refuse_twice(reducer, index)
        if not iteration.ready:
            queue_callback(lambda: _finish(iteration))
        iteration.ready.add(index)


def _finish(iteration: _Iteration) -> None:
    """Average all gradients, at the end of the backward pass."""
    reducer = iteration.reducer
    missing = [name for index, name in enumerate(reducer.names) if index not in iteration.ready]
    missing += [
        name
        for name, param in zip(reducer.names, reducer.params, strict=True)
        if name not in missing and param.grad is None
    ]
    if missing:
        tracer.running().collectives.refuse(
            f"{', '.join(missing)} got no gradient in a backward pass of DistributedDataParallel. In a compiled step, "
            "every parameter has to get one in that pass, on every rank"
        )
    iteration.is_over = True
    if reducer.comm_hook not in _SENT_AS:
        for index, bucket in enumerate(reducer.buckets):
            _reduce_by_hook(reducer, bucket, index)
        return
    group, sent_as = reducer.group, _SENT_AS[reducer.comm_hook]
    for bucket in reducer.buckets:
        grads = [param.grad for param in bucket.params]
        count = sum(bucket.sizes)

        def averaged(call: Any, values: list[Any]) -> list[Any]:
            flat = np.concatenate([value.reshape(-1) for value in values])
            sent = flat if sent_as is None else flat.astype(sent_as)
            sent = (sent * sent.dtype.type(1 / group.size())).astype(sent.dtype, copy=False)
            total = collectives.all_reduce(group, call, sent, "SUM").astype(flat.dtype, copy=False)
            return np.split(total, np.cumsum([value.size for value in values])[:-1])

        what = f"{str(bucket.params[0].dtype).rpartition('.')[2]}[{count}]"
        detail = f"DDP bucket, {what}" + ("" if sent_as is None else f" as {np.dtype(sent_as).name}")
        traced(
            group, "all_reduce", detail, what, grads, grads, False, averaged,
            lambda program, values: in_program.averaged(program, values, sent_as),
        )  # fmt: skip


def _reduce_by_hook(reducer: Reducer, bucket: Bucket, index: int) -> None:
    """Fire a user's communication hook with the gradients of a bucket, and write its result to them."""
    grads = [param.grad for param in bucket.params]
    with no_grad():
        given = GradBucket(bucket, index, len(reducer.buckets), flattened(grads))
        # What the hook reads of its state is guarded, as what it reads of its variables is.
        assert reducer.comm_hook is not None
        future = fire(partial(reducer.comm_hook, reducer.comm_state), given)
        if not hasattr(future, "wait"):
            raise RuntimeError(
                f"a communication hook has to return a torch.futures.Future, not {type(future).__name__}."
                + defined(reducer.comm_hook)
            )
        for grad, reduced in zip(grads, bucket.views_of(future.wait().reshape(-1)), strict=True):
            grad.copy_(reduced)


def _check(iteration: _Iteration) -> None:
    """Refuse a step that ends between a forward and its backward."""
    _iterations.pop(id(iteration.reducer), None)
    if not iteration.is_over:
        tracer.running().collectives.refuse(
            "the step calls a DistributedDataParallel model and does not run its backward pass. Compile both in one "
            "step, or call the model under no_grad()"
        )
