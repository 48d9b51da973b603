"""An iteration of DDP in a compiled step: forward and backward in one trace.

The eager reducer is not used. When the last gradient of a backward pass has arrived, the program averages all of them,
bucket by bucket. By then hooks have seen this rank's own gradients, as in eager mode.

NOTE unused parameters. Eager ranks count in each iteration which of them use a parameter. In a program all ranks must
use the same: the description of each reduction names the unused ones, and ranks compare the descriptions. So a
parameter that is unused here is unused everywhere, and its `.grad` stays.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from undertow._src.tensor.creation import zeros, zeros_like
from undertow._src.types.dtypes import bfloat16, float16, int32

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
        self.unused: list[int] = []
        self.is_over = is_local


_iterations: dict[int, _Iteration] = {}  # by the id of the reducer


def begin(reducer: Reducer, outputs: Iterable[Any] = (), is_local: bool = False) -> None:
    """Begin an iteration: a forward of this trace has ended, with these outputs."""
    stop = tracer.running().collectives.refuse
    hook = reducer.comm_hook
    if hook not in _SENT_AS and not is_local and _is_own(hook):
        name = getattr(hook, "__name__", type(hook).__name__)
        stop(
            f"the communication hook {name} can't be part of a compiled step: it has state, or calls another hook. "
            "Use one that only computes with tensors and collectives, or compile(step, fallback='eager'), which makes no "
            "program"
        )
    if not is_local and hook not in _SENT_AS and not _are_buckets_settled(reducer):
        stop(
            "a communication hook gets other buckets after the first iteration, and a compiled step has the same ones in "
            "each. Call the step twice without undertow.compile first." + defined(hook)  # type: ignore[arg-type]
        )
    if not is_local and any(reducer.sparse):
        stop("DistributedDataParallel with sparse gradients can't be compiled yet")
    earlier = _iterations.get(id(reducer))
    if earlier is not None and earlier.epoch == tracer.epoch and not is_local:
        earlier.is_over = True  # one backward pass may belong to several forwards
    iteration = _iterations[id(reducer)] = _Iteration(reducer, is_local)
    if reducer.find_unused and not reducer.static_graph and not is_local:
        iteration.unused = reducer.unused_by(outputs)
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
        if (index in iteration.ready and not reducer.static_graph) or index in iteration.unused:
            ddp_warnings.refuse_twice(reducer, index)
        if not iteration.ready:
            queue_callback(lambda: _finish(iteration))
        iteration.ready.add(index)


def _finish(iteration: _Iteration) -> None:
    """Average all gradients, at the end of the backward pass."""
    reducer = iteration.reducer
    _check_gradients(iteration)
    iteration.is_over = True
    unused = "".join([f", {reducer.names[index]} unused" for index in iteration.unused])
    if reducer.comm_hook not in _SENT_AS:
        if reducer.find_unused or reducer.static_graph:
            _compare_use(reducer, unused)
        for index, bucket in enumerate(reducer.buckets):
            if not (reducer.skip_unused and set(bucket.indices) <= set(iteration.unused)):
                _reduce_by_hook(iteration, bucket, index)
        return
    group, sent_as = reducer.group, _SENT_AS[reducer.comm_hook]
    for bucket in reducer.buckets:
        grads = [param.grad for param in _used(iteration, bucket)]
        if not grads:
            continue
        count = sum([grad.numel() for grad in grads])

        def averaged(call: Any, values: list[Any]) -> list[Any]:
            flat = np.concatenate([value.reshape(-1) for value in values])
            sent = flat if sent_as is None else flat.astype(sent_as)
            sent = (sent * sent.dtype.type(1 / group.size())).astype(sent.dtype, copy=False)
            total = collectives.all_reduce(group, call, sent, "SUM").astype(flat.dtype, copy=False)
            return np.split(total, np.cumsum([value.size for value in values])[:-1])

        what = f"{str(bucket.params[0].dtype).rpartition('.')[2]}[{count}]"
        detail = f"DDP bucket, {what}{unused}" + ("" if sent_as is None else f" as {np.dtype(sent_as).name}")
        traced(
            group, "all_reduce", detail, what, grads, grads, False, averaged,
            lambda program, values: in_program.averaged(program, values, sent_as),
        )  # fmt: skip


def _compare_use(reducer: Reducer, unused: str) -> None:
    """Add a reduction that describes the unused parameters: those of a communication hook do not."""
    group, count = reducer.group, [zeros(1, dtype=int32)]
    traced(
        group, "all_reduce", f"DDP use of parameters{unused}", "int32[1]", count, count, False,
        lambda call, values: [collectives.all_reduce(group, call, values[0], "SUM")],
        lambda program, values: [in_program.all_reduce(program, values[0], "SUM")],
    )  # fmt: skip


def _used(iteration: _Iteration, bucket: Bucket) -> list[Any]:
    """Return the parameters of a bucket that got a gradient."""
    return [param for index, param in zip(bucket.indices, bucket.params, strict=True) if index not in iteration.unused]


def _check_gradients(iteration: _Iteration) -> None:
    """Refuse a parameter without a gradient, unless it is known to be unused."""
    reducer, stop = iteration.reducer, tracer.running().collectives.refuse
    without = [index for index in range(len(reducer.params)) if index not in iteration.ready]
    if reducer.static_graph:
        iteration.unused = without
        before = reducer.compiled_unused
        if before is None and reducer.iterations:
            before = [index for index, count in enumerate(reducer.firings) if not count]
        if before is not None and before != without:
            changed = ", ".join([reducer.names[index] for index in sorted({*before} ^ {*without})])
            stop(
                f"this iteration and the first one do not use the same parameters: {changed}. static_graph=True promises "
                "that they do"
            )
    missing = [
        name
        for index, (name, param) in enumerate(zip(reducer.names, reducer.params, strict=True))
        if index not in iteration.unused and (index in without or param.grad is None)
    ]
    if missing:
        stop(
            f"{', '.join(missing)} got no gradient in a backward pass of DistributedDataParallel. In a compiled step, "
            "every parameter has to get one in that pass, on every rank, unless the forward does not use it and "
            "find_unused_parameters=True or static_graph=True is passed"
        )
    if reducer.as_views and any(reducer.params[index].grad is not None for index in iteration.unused):
        stop("gradient_as_bucket_view=True and an unused parameter that has a gradient of an earlier iteration")


def _reduce_by_hook(iteration: _Iteration, bucket: Bucket, index: int) -> None:
    """Fire a user's communication hook with the gradients of a bucket, and write its result to them."""
    reducer = iteration.reducer
    with no_grad():
        grads = [zeros_like(param) if param.grad is None else param.grad for param in bucket.params]
        given = GradBucket(bucket, index, len(reducer.buckets), flattened(grads))
        # What the hook reads of its state is guarded, as what it reads of its variables is.
        assert reducer.comm_hook is not None
        future = fire(partial(reducer.comm_hook, reducer.comm_state), given)
        if future is given:  # it would run on the host, after the program
            tracer.running().collectives.refuse(
                "a communication hook does more than compute: it prints, or changes an object. Its result is part of the "
                "program, so it can't run on the host." + defined(reducer.comm_hook)
            )
        if not hasattr(future, "wait"):
            raise RuntimeError(
                f"a communication hook has to return a torch.futures.Future, not {type(future).__name__}."
                + defined(reducer.comm_hook)
            )
        results = bucket.views_of(future.wait().reshape(-1))
        for number, grad, reduced in zip(bucket.indices, grads, results, strict=True):
            if number not in iteration.unused:
                grad.copy_(reduced)


def _check(iteration: _Iteration) -> None:
    """Refuse a step that ends between a forward and its backward."""
    _iterations.pop(id(iteration.reducer), None)
    if iteration.reducer.static_graph and not iteration.is_local:
        iteration.reducer.compiled_unused = iteration.unused
    if not iteration.is_over:
        tracer.running().collectives.refuse(
            "the step calls a DistributedDataParallel model and does not run its backward pass. Compile both in one "
            "step, or call the model under no_grad()"
        )
