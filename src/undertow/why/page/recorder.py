"""Record for the page what a trace does not hold: the gradients at each node of a backward pass, and at each step.

A `Watcher` calls its recorder for every pass and every optimizer step. The recorder keeps a bounded amount: one pass for
each line that calls backward() (the last one, or the first that failed), and a limited number of steps, evenly spread
over the run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from undertow.why.gradient_flow import Sample
from undertow.why.trace import BackwardRecord, OptimizerRecord

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

MOST_PASSES = 8  # lines that call backward()
MOST_STEPS = 240  # at this number, every second step is dropped, and so on
MOST_PARAMETERS = 2000  # measured in one step


# For each edge to a next node: the position of its gradient among those that the node gives, if it is measured. If the
# next node has no other incoming edge, it is None: the gradient that node receives is the same.
Edges = list[int | None]


class NodeSample:
    """A node in one backward pass. received: norm of the gradient that arrived; sent: norms, in the order of its edges."""

    __slots__ = ("edges", "order", "received", "saved", "sent")

    def __init__(self, edges: Edges, saved: int) -> None:
        self.edges = edges
        self.saved = saved  # bytes of the tensors that it saved
        self.order: int | None = None  # its position in the order of execution; None: it did not run
        self.received: float | None = None
        self.sent: list[float | None] = []


class PassPicture:
    """One backward pass: its nodes by their ids in the trace, and the value of its root if that is a scalar."""

    def __init__(self, backward: int) -> None:
        self.backward = backward
        self.nodes: dict[int, NodeSample] = {}
        self.value: float | None = None
        self.ran = 0
        self.bad = False  # NaN or Inf first appeared in it, or it raised


class StepSamples:
    """The gradients of parameters at one step: tensor number -> sample."""

    __slots__ = ("optimizer", "place", "samples", "step", "value")

    def __init__(self, step: int, place: Any, optimizer: int | None, value: float | None) -> None:
        self.step = step  # counted from 1
        self.place = place
        self.optimizer = optimizer
        self.value = value  # of the last root
        self.samples: dict[int, Sample] = {}


class Thinned:
    """A list of bounded length: when it is full, every second entry is dropped, and the stride of new ones doubles."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.stride = 1
        self.total = 0
        self.kept: list[StepSamples] = []

    def count_next(self) -> bool:
        """Count one more entry. Return whether it is to be added."""
        self.total += 1
        return (self.total - 1) % self.stride == 0

    def add(self, entry: StepSamples) -> None:
        self.kept.append(entry)
        if len(self.kept) >= self.most:
            self.kept = self.kept[::2]
            self.stride *= 2


class Steps:
    """Samples in order of time. Each optimizer, or each line of backward(), is thinned separately, so that all stay."""

    def __init__(self) -> None:
        self.by: dict[Any, Thinned] = {}
        self.firings = 0  # the number of hook calls before the last step, kept or not

    @property
    def total(self) -> int:
        return sum(part.total for part in self.by.values())

    @property
    def stride(self) -> int:
        return max((part.stride for part in self.by.values()), default=1)

    @property
    def kept(self) -> list[StepSamples]:
        return sorted((entry for part in self.by.values() for entry in part.kept), key=lambda entry: entry.step)


class Recorder:
    """Receives passes and steps from one watcher."""

    def __init__(self) -> None:
        self.pictures: dict[Any, PassPicture] = {}  # line of the backward() -> its pass
        self.dropped_lines = 0
        self.steps = Steps()
        self.passes = Steps()  # samples after backward(), until an optimizer steps
        self.dropped_parameters = False
        self._value: float | None = None
        self._open: list[PassPicture] = []
        self._layouts: dict[Any, tuple[list[Any], list[tuple[Edges, int]]]] = {}

    # --- backward passes

    def begin(self, watcher: Watcher, record: BackwardRecord, roots: list[Any], nodes: list[Any]) -> None:
        """Record that a pass is about to run these nodes."""
        picture = PassPicture(record.id)
        self._open.append(picture)
        if len(roots) == 1 and roots[0].numel() == 1:
            picture.value = self._value = float(roots[0].detach().real.item())
        numbers = [watcher.graph.number(node) or 0 for node in nodes]
        for number, (edges, saved) in zip(numbers, self._layout(watcher, record, nodes, numbers)):
            picture.nodes[number] = NodeSample(edges, saved)

    def _layout(
        self, watcher: Watcher, record: BackwardRecord, nodes: list[Any], numbers: list[int]
    ) -> list[tuple[Edges, int]]:
        """Return (edges, saved bytes) of each node. Passes of one line whose graphs are alike are measured once."""
        key = None if record.place is None else record.place.key
        known_nodes = watcher.trace.nodes
        shape = [(known_nodes[number].name, len(known_nodes[number].next)) for number in numbers]
        known = self._layouts.get(key)
        if known is not None and known[0] == shape:
            return known[1]
        users = Counter(child for number in numbers for child in known_nodes[number].next)
        counted: set[int] = set()
        found: list[tuple[Edges, int]] = []
        for node, number in zip(nodes, numbers):
            places = [place for place, (child, _) in enumerate(node.next_functions) if child is not None]
            edges: Edges = [
                place if users[child] > 1 else None for place, child in zip(places, known_nodes[number].next)
            ]
            found.append((edges, sum(_saved_bytes(node, counted))))
        self._layouts[key] = shape, found
        return found

    def at_node(
        self, number: int, got: Sequence[Any], gave: Sequence[Any], norm: Callable[[Any], float | None]
    ) -> None:
        """Record a node that ran, with the gradients it received and sent; `norm` measures one of them."""
        picture = self._open[-1] if self._open else None
        sample = None if picture is None else picture.nodes.get(number)
        if picture is None or sample is None:  # the node belongs to an outer pass
            return
        picture.ran += 1
        sample.order = picture.ran
        received = [norm(grad) for grad in got if grad is not None]
        told = [one for one in received if one is not None]
        sample.received = math.hypot(*told) if told else None
        sample.sent = [
            None if place is None or place >= len(gave) or gave[place] is None else norm(gave[place])
            for place in sample.edges
        ]

    def end(self, watcher: Watcher, record: BackwardRecord, leaves: list[tuple[Any, int]]) -> None:
        """Record the end of a pass; leaves: the tensors whose .grad it may have written."""
        if not self._open or self._open[-1].backward != record.id:  # its begin() failed
            return
        picture = self._open.pop()
        picture.bad = record.error is not None or bool(record.births)
        key = None if record.place is None else record.place.key
        before = self.pictures.get(key)
        if before is None and len(self.pictures) >= MOST_PASSES and record.error is None:
            self.dropped_lines += 1
        elif before is None or not before.bad or record.error is not None:
            self.pictures[key] = picture
        if record.kind == "backward" and not self.steps.total:
            self._take(watcher, self.passes, key, record.place, None, lambda: leaves)

    # --- steps

    def step(self, watcher: Watcher, optimizer: OptimizerRecord, place: Any, tensors: list[Any]) -> None:
        """Record that an optimizer is about to step."""

        def found() -> list[tuple[Any, int]]:
            held = {number for other in watcher.trace.optimizers for number in other.tensors}
            free = [(tensor, number) for tensor, number in _parameters(watcher) if number not in held]
            return [(tensor, watcher.see(tensor, place).id) for tensor in tensors] + free

        self._take(watcher, self.steps, optimizer.id, place, optimizer.id, found)

    def _take(
        self, watcher: Watcher, into: Steps, key: Any, place: Any, optimizer: int | None,
        find: Callable[[], list[tuple[Any, int]]],
    ) -> None:  # fmt: skip
        """Add a step with the gradients as they are now, unless thinning skips it."""
        trace = watcher.trace
        since, into.firings = into.firings, len(trace.firings)
        if not into.by.setdefault(key, Thinned(MOST_STEPS)).count_next():
            return
        edited = {
            trace.hooks[firing.hook].tensor
            for firing in trace.firings[since:]
            if firing.changed or firing.answer == "new"
        }
        entry = StepSamples(into.total, place, optimizer, self._value)
        tensors = find()
        self.dropped_parameters = self.dropped_parameters or len(tensors) > MOST_PARAMETERS
        for tensor, number in tensors[:MOST_PARAMETERS]:
            entry.samples[number] = Sample(tensor, number in edited)
        into.by[key].add(entry)


def _parameters(watcher: Watcher) -> Iterator[tuple[Any, int]]:
    """Return the parameters that exist now."""
    return ((tensor, record.id) for tensor, record in watcher.tensors.alive() if record.parameter and tensor.is_leaf)


def _saved_bytes(node: Any, counted: set[int]) -> Iterator[int]:
    """Yield the bytes of each tensor that a node saved, counting shared memory once and skipping packed tensors."""
    for name in dir(type(node)):
        if not name.startswith("_raw_saved_"):
            continue
        try:
            raw = getattr(node, name)
            for part in raw if isinstance(raw, (tuple, list)) else (raw,):
                kept = part.data
                if not hasattr(kept, "untyped_storage") or (kept.is_leaf and kept.requires_grad):
                    continue  # a number, a packed value, or a parameter, which the program keeps anyway
                storage = kept.untyped_storage()
                if storage.data_ptr() not in counted:
                    counted.add(storage.data_ptr())
                    yield storage.nbytes()
        except (RuntimeError, AttributeError, NotImplementedError):  # freed, sparse
            continue
