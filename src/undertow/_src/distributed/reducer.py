"""DDP's reducer: counts the gradients that arrive in a backward pass, and reduces each bucket that is full.

An iteration begins when a forward ends (`prepare_for_backward`). The node that accumulates a parameter's gradient then
calls `_arrived`, after the parameter's hooks, which see this rank's gradient. A full bucket is reduced, in the order of
buckets, by the communication hook or by one all-reduce. When all reductions have started, a callback is queued for
the end of the backward pass. It waits for them and writes the results to `.grad`.

A gradient that arrives outside an iteration is not averaged, as in PyTorch. `ddp_warnings.py` warns, once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from undertow._src.base import hooks, tracer
from undertow._src.base.modes import local, no_grad
from undertow._src.base.sites import warn_once
from undertow._src.distributed import ddp_warnings, traced_iteration
from undertow._src.distributed.buckets import Bucket, GradBucket, assign_buckets
from undertow._src.distributed.functions import all_gather, all_reduce, broadcast
from undertow._src.distributed.sparse import all_reduce_sparse, sparse_zeros
from undertow._src.engine.engine import queue_callback
from undertow._src.engine.node import AccumulateGrad, edge_of
from undertow._src.engine.outputs import bump
from undertow._src.ops.arithmetic import mul
from undertow._src.tensor.creation import zeros
from undertow._src.tensor.from_data import tensor as new_tensor
from undertow._src.types.dtypes import int32
from undertow.futures import Future


class Reducer:
    """Averages the gradients of parameters over the ranks of a group, during the backward pass."""

    def __init__(
        self,
        params: Sequence[Any],
        names: Sequence[str],
        sparse: Sequence[bool],
        group: Any,
        limits: Sequence[int],
        *,
        first_limits: Sequence[int] = (1 << 62,),
        find_unused: bool,
        static_graph: bool,
        as_views: bool,
        skip_unused: bool = False,
    ) -> None:
        self.params, self.names, self.sparse, self.group = list(params), list(names), list(sparse), group
        self.limits = list(limits)  # bytes of each bucket once buckets follow the order of arrival
        self.find_unused, self.static_graph, self.as_views, self.skip_unused = (
            find_unused,
            static_graph,
            as_views,
            skip_unused,
        )
        self.comm_hook: Callable[[Any, GradBucket], Any] | None = None
        self.comm_state: Any = None
        self.divisor = 0.0  # set at the first gradient of an iteration
        self.joining: Any = None  # in a join: the collective that counts the ranks that are still training
        self.divides_by_all = True
        self.arrivals: list[int] = []  # the order of the first iteration
        self.is_rebuilt = False
        self.iterations = 0
        self.is_expecting = self.is_unfinished = False
        self.was_local = False  # whether the last forward ran under no_sync
        self.unused: list[int] = []
        self.are_unused_marked = False
        self.ready: set[int] = set()
        self.firings = [0] * len(self.params)  # static graph: gradients of each parameter in the first iteration
        self.firings_left: list[int] = []
        self.compiled_unused: list[int] | None = None  # static graph: the unused parameters of compiled iterations
        self.used_here = [0] * len(self.params)
        self.used_anywhere: list[int] | None = None
        self._used_work: Any = None
        self.versions: list[int] = []
        self.buckets: list[Bucket] = []
        self.next = 0  # the first bucket that is not yet being reduced
        first = first_limits if static_graph or not find_unused else self.limits
        self._set_buckets(assign_buckets(self.params, self.sparse, first)[::-1])
        self.nodes: list[AccumulateGrad] = [edge_of(param)[0] for param in self.params]
        ours = weakref.ref(self)
        for index, node in enumerate(self.nodes):
            node._run_afterwards(_caller(ours, index))

    def _set_buckets(self, assigned: Sequence[Sequence[int]]) -> None:
        with no_grad():
            self.buckets = [Bucket(indices, self.params, self.sparse[indices[0]]) for indices in assigned]
        self.place_of = {index: (bucket, n) for bucket in self.buckets for n, index in enumerate(bucket.indices)}

    # --- around a forward

    @property
    def _is_searching(self) -> bool:
        """Whether each iteration looks for unused parameters."""
        return self.find_unused and not self.static_graph

    @property
    def _is_first_static(self) -> bool:
        return self.static_graph and self.iterations == 1

    def prepare_for_forward(self) -> None:
        """Count an iteration."""
        self.iterations += 1

    def rebuild_buckets(self) -> bool:
        """After the first iteration, order the buckets as gradients arrived on rank 0; return whether this happened."""
        if self.is_rebuilt or self._is_searching or not self.arrivals:
            return False
        self.refuse_unfinished()
        self.arrivals += [index for index in range(len(self.params)) if index not in set(self.arrivals)]
        assigned = assign_buckets(self.params, self.sparse, self.limits, self.arrivals)
        # The parameters in order; a negative number begins a bucket.
        marks = [-index - 1 if n == 0 else index for indices in assigned for n, index in enumerate(indices)]
        order = new_tensor(marks, dtype=int32)
        broadcast(order, group=self.group, group_src=0)
        assigned = []
        for mark in order.tolist():
            if mark < 0:
                assigned.append([-mark - 1])
            else:
                assigned[-1].append(mark)
        self._set_buckets(assigned)
        self.is_rebuilt = True
        self.arrivals = []
        return True

    def prepare_for_backward(self, outputs: Iterable[Any]) -> None:
        """Begin an iteration: `outputs` are the forward's tensors, searched for the parameters that they depend on."""
        self.refuse_unfinished()
        self._reset()
        self.is_expecting, self.was_local = True, False
        if self.static_graph:
            self.firings_left = list(self.firings)
            self.unused = [] if self._is_first_static else [n for n, count in enumerate(self.firings) if not count]
        elif self.find_unused:
            self.unused = self.unused_by(outputs)
        self.versions = [param._version for param in self.params]

    def unused_by(self, outputs: Iterable[Any]) -> list[int]:
        """Return the parameters that a forward's tensors do not depend on."""
        reached = _leaves_of(outputs)
        unused = [index for index, node in enumerate(self.nodes) if node not in reached]
        if not unused:
            warn_once(
                "find_unused_parameters=True was specified in DDP constructor, but every parameter was used in the "
                "forward pass. The search costs time in each iteration: leave the flag off if this is always so."
            )
        return unused

    def _reset(self) -> None:
        self.next, self.ready, self.unused, self.are_unused_marked = 0, set(), [], False
        self.divisor = 0.0
        for bucket in self.buckets:
            bucket.pending, bucket.is_recorded, bucket.future = len(bucket.indices), False, None

    def refuse_unfinished(self) -> None:
        """Raise if the last iteration has not averaged its gradients."""
        if self.is_unfinished:
            missing = [index for index in range(len(self.params)) if index not in self.ready]
            ddp_warnings.refuse_unfinished(self, missing)

    # --- as gradients arrive

    def _arrived(self, index: int) -> None:
        """Take a parameter's gradient, which has just been accumulated."""
        if tracer.here() is not None:
            traced_iteration.arrived(self, index)
            return
        if not self.is_expecting:
            ddp_warnings.warn_of_local_gradient(self, index)
            return
        ddp_warnings.warn_of_step(self, index)
        if self._is_searching or self._is_first_static:
            self.used_here[index] |= self.params[index].grad is not None
        if self._is_first_static:
            self.firings[index] += 1
            return
        if not self.is_unfinished:
            queue_callback(ddp_warnings.end_of_pass(self))
        if not self.are_unused_marked:
            self.are_unused_marked = True
            for unused in self.unused:
                self._mark_ready(unused)
        if self.static_graph:
            if not self.firings_left[index]:
                raise RuntimeError(
                    f"Your training graph has changed in this iteration: parameter {self.names[index]} gets more "
                    "gradients than in the first iteration, and static_graph=True promises that it does not."
                )
            self.firings_left[index] -= 1
            if self.firings_left[index]:
                return
        if not self.is_rebuilt and not self._is_searching:
            self.arrivals.append(index)
        self._mark_ready(index)
        if len(self.ready) == len(self.params):
            if self._is_searching:
                self._start_used_map()
            queue_callback(self._finish)

    def reduce_all(self) -> None:
        """Reduce all gradients, at the end of a static graph's first backward pass, when the use of parameters is known."""
        self._start_used_map()
        for index in range(len(self.params)):
            self._mark_ready(index)
        self._finish()

    def _mark_ready(self, index: int) -> None:
        if index in self.ready:
            ddp_warnings.refuse_twice(self, index)
        self.ready.add(index)
        self.is_unfinished = True
        if not self.divisor:
            self.divisor = self._find_divisor()
        bucket, place = self.place_of[index]
        if bucket.is_sparse:
            self._take_sparse(bucket)
        else:
            self._copy_in(bucket, place)
        bucket.pending -= 1
        while self.next < len(self.buckets) and not self.buckets[self.next].pending:
            self._reduce(self.next)
            self.next += 1

    def _find_divisor(self) -> float:
        if self.joining is None or self.divides_by_all:
            return float(self.group.size())
        return float(self.joining.result()[0].item())

    def _copy_in(self, bucket: Bucket, place: int) -> None:
        """Write a gradient to its place in the bucket; divide it, unless there is a communication hook."""
        param, view = bucket.params[place], bucket.views[place]
        grad = param.grad
        if grad is None:
            with no_grad():
                view.zero_()
            return
        if grad._get_storage() is view._get_storage():
            if self.comm_hook is None:
                view.div_(self.divisor)
            return
        if grad.requires_grad and local.modes.grad_enabled:
            if bucket.is_recorded or len(bucket.params) == 1:
                raise RuntimeError(
                    "DistributedDataParallel can't average gradients of backward(create_graph=True): that of "
                    f"{self.names[bucket.indices[place]]}, from a leaf Variable that requires grad, has a history, and its "
                    "place in a bucket has none. Use torch.autograd.grad, whose gradients stay local."
                )
            bucket.is_recorded = True
            return
        _write(view, grad, 1.0 if self.comm_hook is not None else 1.0 / self.divisor)
        if self.as_views:
            param.grad = view

    def _take_sparse(self, bucket: Bucket) -> None:
        grad = bucket.params[0].grad
        if grad is None:
            raise RuntimeError("DDP expected a sparse gradient: a rank has to use an embedding with sparse=True.")
        bucket.flat = grad if self.comm_hook is not None else grad / self.divisor

    # --- communication

    def reduce_zeros(self) -> None:
        """Take part in an iteration of other ranks, with zeros as gradients."""
        for index, bucket in enumerate(self.buckets):
            first = bucket.params[0]
            if bucket.is_sparse:
                bucket.flat = sparse_zeros(first)
                self._reduce(index)
            else:
                kept, bucket.flat = bucket.flat, zeros(bucket.flat.numel(), dtype=first.dtype, device=first.device)
                self._reduce(index)
                bucket.future.wait()
                bucket.flat = kept
        if self._is_searching:
            self._start_used_map()
            self._find_used_anywhere()
            self.used_anywhere = None
        if not self.is_rebuilt:
            self.arrivals = list(range(len(self.params)))

    def _reduce(self, index: int) -> None:
        """Start a bucket's reduction."""
        bucket = self.buckets[index]
        if self.skip_unused and set(bucket.indices) <= set(self.unused):
            bucket.future = Future()
            bucket.future.set_result(bucket.flat)
            return
        if self.comm_hook is not None:
            given = GradBucket(bucket, index, len(self.buckets), bucket.flat)
            bucket.future = hooks.fire(self.comm_hook, self.comm_state, given)
            if not hasattr(bucket.future, "wait"):
                raise RuntimeError(
                    f"a communication hook has to return a torch.futures.Future, not {type(bucket.future).__name__}."
                    + hooks.defined(self.comm_hook)
                )
        elif bucket.is_sparse:
            bucket.flat = all_reduce_sparse(bucket.flat, self.group, all_gather)
            bucket.future = Future()
            bucket.future.set_result(bucket.flat)
        else:
            bucket.future = all_reduce(bucket.flat, group=self.group, async_op=True)

    def _start_used_map(self) -> None:
        used = new_tensor([int(each) for each in self.used_here], dtype=int32)
        self._used_work = (all_reduce(used, group=self.group, async_op=True), used)

    def _finish(self) -> None:
        """Wait for all reductions and write their results to `.grad`."""
        self.is_expecting = self.is_unfinished = False
        for bucket in self.buckets:
            result = bucket.future.wait()
            if result is True:  # a collective's handle
                result = bucket.flat
            if isinstance(result, (list, tuple)) or not hasattr(result, "dtype"):
                raise RuntimeError(
                    f"Unable to cast {result} to Tensor: the future of a communication hook has to hold the flat tensor."
                )
            self._find_used_anywhere()
            self._copy_out(bucket, result)
            bucket.future = None
        if self._is_searching:
            self.used_here = [0] * len(self.params)
            self.used_anywhere = None
        self.joining = None

    def _find_used_anywhere(self) -> None:
        if self._used_work is not None:
            work, used = self._used_work
            work.wait()
            self.used_anywhere, self._used_work = used.tolist(), None

    def _copy_out(self, bucket: Bucket, result: Any) -> None:
        if bucket.is_sparse:
            bucket.params[0].grad, bucket.flat = result, None
            return
        is_own = result is bucket.flat
        views = bucket.views if is_own else bucket.views_of(result.reshape(-1))
        for place, index in enumerate(bucket.indices):
            param, view = bucket.params[place], views[place]
            if self.as_views and not is_own:
                bucket.views[place].copy_(view)
            if self.used_anywhere is not None and not self.used_anywhere[index]:
                continue  # unused on all ranks: `.grad` stays
            grad = param.grad
            if grad is None:
                param.grad = bucket.views[place] if self.as_views else view.clone()
            elif not self.as_views:
                _write(grad, view)
            elif grad._get_storage() is not bucket.flat._get_storage():
                raise RuntimeError(
                    f"the gradient of {self.names[index]} is not the expected DDP bucket view: it was replaced during the "
                    "backward pass, and gradient_as_bucket_view=True needs it in place. Change it in place, or pass False."
                )


def _caller(ours: weakref.ref[Reducer], index: int) -> Callable[[], None]:
    """Return the function that a parameter's node calls. It has a weak reference to the reducer."""

    def arrived() -> None:
        reducer = ours()
        if reducer is not None:
            reducer._arrived(index)

    return arrived


def _write(target: Any, value: Any, factor: float = 1.0) -> None:
    """Write a tensor, times a factor, to a target."""
    to, given = target._array, value._array
    if (
        type(to) is type(given) is np.ndarray and to.dtype == given.dtype and to.dtype.kind == "f" and to.itemsize > 2
        and not (local.modes.grad_enabled and (target.requires_grad or value.requires_grad))
    ):  # fmt: skip
        if factor == 1.0:
            np.copyto(to, given)
        else:
            np.multiply(given, to.dtype.type(factor), out=to)
        bump(target)
    else:
        target.copy_(value if factor == 1.0 else mul(value, factor))


def _leaves_of(outputs: Iterable[Any]) -> set[Any]:
    """Return all nodes of the graph that computed these tensors."""
    stack = [output.grad_fn for output in outputs if output.grad_fn is not None]
    reached: set[Any] = set()
    while stack:
        node = stack.pop()
        if node not in reached:
            reached.add(node)
            stack += [edge[0] for edge in node._edges if edge is not None]
    return reached
