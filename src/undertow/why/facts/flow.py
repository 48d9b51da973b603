"""Follow a tensor's values forward: through recorded ops, through cuts, out to Python, and into losses."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from undertow.why.followed_values import only_looked_at
from undertow.why.trace import OpRecord

if TYPE_CHECKING:
    from undertow.why.facts.facts import Facts

COPIES = frozenset("clone detach data.get item tolist numpy __float__ __array__ cpu to contiguous".split())
_CONTROL = frozenset("__bool__ __repr__ __str__ __format__ __index__ __int__ __len__".split())


@dataclass(slots=True)
class Stop:
    """How the values of the start tensor reached another tensor."""

    op: int | None  # the op that wrote them
    source: int | None  # the tensor that the op took them from
    cut: int | None  # the op on the path that left the graph; None: still in the graph
    since: int  # the time of the op


def kept_graphs(op: OpRecord) -> list[bool]:
    """Return for each result of an op whether it continues the graph of the op's inputs.

    A leaf that is written into stays a leaf. A view of a leaf that is made with gradient mode off has requires_grad
    set, but no graph.
    """
    if op.kind == "cut":
        return [False] * len(op.outputs)
    nodes = dict(zip(op.outputs, op.output_nodes))
    if not op.writes:
        recorded = [op.grad_mode or made in op.inputs or nodes.get(made) is not None for made in op.outputs]
        return [gave and kept for gave, kept in zip(op.outputs_require_grad, recorded)]
    return [
        gave and (made not in op.writes or nodes.get(made) is not None)
        for made, gave in zip(op.outputs, op.outputs_require_grad)
    ]


class Flow:
    """The values of one tensor, followed forward through the whole run."""

    def __init__(self, facts: Facts, start: int) -> None:
        self.facts = facts
        self.start = start
        self.stops: dict[int, Stop] = {start: Stop(None, None, None, -1)}
        self.escapes: list[tuple[int, int]] = []  # (op that passed values to Python, op that cut them from the graph)
        self.taken: list[int] = []  # all ops that took these values
        waiting: list[int] = []
        queued: set[int] = set()
        self._queue(self.start, -1, waiting, queued)
        while waiting:
            self._take(self.facts.trace.ops[heapq.heappop(waiting)], waiting, queued)

    def _queue(self, tensor: int, since: int, waiting: list[int], queued: set[int]) -> None:
        for number in self.facts.uses.get(tensor, ()):
            if number not in queued and self.facts.trace.ops[number].time > since:
                queued.add(number)
                heapq.heappush(waiting, number)

    def _take(self, op: OpRecord, waiting: list[int], queued: set[int]) -> None:
        if op.kind == "copy" or op.internal:
            return
        ways = self._sources(op)
        if not ways:
            return
        self.taken.append(op.id)
        attached = [tensor for tensor, cut in ways if cut is None]
        if op.kind == "leaves":
            if op.name not in _CONTROL:
                cut = ways[0][1]
                self.escapes.append((op.id, op.id if cut is None else cut))
            return
        for output, gave in zip(op.outputs, kept_graphs(op)):
            if attached:
                cut = None if gave else op.id
                source = attached[0]
            else:
                source, cut = ways[0]
            if output in self.stops and (self.stops[output].cut is None or cut is not None):
                continue
            self.stops[output] = Stop(op.id, source, cut, op.time)
            self._queue(output, op.time, waiting, queued)
            if op.writes:
                self._share(op, output, waiting, queued)

    def _share(self, op: OpRecord, output: int, waiting: list[int], queued: set[int]) -> None:
        """Follow a write to every tensor that shares the memory."""
        stop = self.stops[output]
        tensors = self.facts.trace.tensors
        for other in self.facts.memory[tensors[output].memory]:
            if other not in self.stops and other != self.start and tensors[other].time < op.time:
                cut = self.facts.cut_between(output, other) if stop.cut is None else stop.cut
                self.stops[other] = Stop(op.id, stop.source, cut, op.time)
                self._queue(other, op.time, waiting, queued)

    def _sources(self, op: OpRecord) -> list[tuple[int, int | None]]:
        """Return the tensors that bring the values into an op: (tensor, the cut before it)."""
        found: list[tuple[int, int | None]] = []
        for tensor, asked in zip(op.inputs, op.inputs_require_grad):
            stop = self.stops.get(tensor)
            if stop is not None and stop.since < op.time:
                frozen = stop.cut is None and not asked
                found.append((tensor, op.id if frozen else stop.cut))
        for tensor in op.scalars:
            stop = self.stops.get(tensor)
            if stop is not None and stop.since < op.time:
                found.append(
                    (tensor, (self.facts.passed_to_python(tensor, op) or op).id if stop.cut is None else stop.cut)
                )
        return found

    # --- where the values ended

    @cached_property
    def sinks(self) -> list[int]:
        """Tensors still in the graph that no recorded op took further."""
        ops = self.facts.trace.ops
        goes_on = {
            tensor
            for number in self.taken
            for tensor in ops[number].inputs
            if any(output != tensor and self._attached(output) for output in ops[number].outputs)
        }
        return [tensor for tensor, stop in self.stops.items() if stop.cut is None and tensor not in goes_on]

    def _attached(self, tensor: int) -> bool:
        stop = self.stops.get(tensor)
        return stop is not None and stop.cut is None

    def path(self, tensor: int) -> list[int]:
        """Return the ops from the start to a tensor."""
        found: list[int] = []
        while tensor != self.start:
            stop = self.stops[tensor]
            if stop.op is None or stop.source is None or stop.op in found:
                break
            found.append(stop.op)
            tensor = stop.source
        return found[::-1]

    def mixes(self, tensor: int) -> bool:
        """Whether an op on the path to a tensor took an input that is not computed from the start in the graph."""
        ops = self.facts.trace.ops
        while tensor != self.start:
            stop = self.stops[tensor]
            if stop.op is None or stop.source is None:
                return False
            if any(not self._attached(other) for other in ops[stop.op].inputs):
                return True
            if stop.source == tensor:
                return False
            tensor = stop.source
        return False

    @cached_property
    def is_used(self) -> bool:
        """Whether any op used the tensor for more than copying or inspecting it."""
        for number in self.taken:
            op = self.facts.trace.ops[number]
            if op.name in COPIES or op.kind == "leaves":
                continue
            if set(op.writes) & {self.start} and len(op.inputs) == 1:
                continue  # initialisation
            mixed = any(other not in self.stops for other in op.inputs)
            if mixed or not only_looked_at(op.place):
                return True
        return False
