"""The paths from a tensor to the roots of a backward pass, and where each of them leaves the graph."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from undertow.why.facts.flow import kept_graphs
from undertow.why.trace import BackwardRecord, GradEvent, OpRecord

if TYPE_CHECKING:
    from undertow.why.facts.facts import Facts

_EXPLICIT = frozenset("detach detach_ data.get data.set".split())
_COMPARES = frozenset("gt lt ge le eq ne __gt__ __lt__ __ge__ __le__ __eq__ __ne__ isnan isfinite isinf bool".split())
DRAWS = frozenset("multinomial bernoulli poisson normal binomial".split())
CHOOSES = frozenset(
    "embedding gather take take_along_dim index_select __getitem__ __setitem__ index_put index_put_ index_add index_add_ "
    "scatter scatter_ scatter_add scatter_add_ where masked_fill masked_fill_ masked_select cross_entropy nll_loss".split()
)


class Paths:
    """The ops that roots were computed from, recorded in the graph or not, and a tensor's paths through them."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._upstream: dict[int, list[int]] = {}

    def upstream(self, record: BackwardRecord) -> list[int]:
        """Return the ops that a backward's roots were computed from, in order."""
        if record.id not in self._upstream:
            self._upstream[record.id] = sorted(self.ancestors([(root, record.time) for root in record.roots]))
        return self._upstream[record.id]

    @cached_property
    def differentiated(self) -> set[int]:
        """All ops that the roots of differentiating backward passes were computed from."""
        records = [record for record in self.facts.trace.backwards if record.id in self.facts.differentiated]
        return self.ancestors([(root, record.time) for record in records for root in record.roots])

    def ancestors(self, stack: list[tuple[int, int]]) -> set[int]:
        """Return the ops that some tensors, as they were at their times, were computed from."""
        trace = self.facts.trace
        found: set[int] = set()
        while stack:
            tensor, before = stack.pop()
            makers = []
            maker = self.facts.maker(tensor, before)
            while maker is not None:
                makers.append(maker.id)
                maker = self.facts.maker(tensor, maker.time) if maker.kind == "module" else None  # what ran inside it
            writers = self.facts.writers.get(trace.tensors[tensor].memory, ())
            makers += [op.id for op in writers if op.id not in makers]
            for number in makers:
                op = trace.ops[number]
                if number in found or op.time >= before or op.kind == "copy" or op.internal:
                    continue
                found.add(number)
                stack.extend((taken, op.time) for taken in (*op.inputs, *op.scalars))
        return found

    def in_graph(self, record: BackwardRecord) -> set[int]:
        """Return the tensors that the graph of a backward's roots goes through."""
        ops, found = self.facts.trace.ops, set(record.roots)
        for number in reversed(self.upstream(record)):
            op = ops[number]
            if any(output in found and kept for output, kept in zip(op.outputs, kept_graphs(op))):
                found.update(taken for taken, asked in zip(op.inputs, op.inputs_require_grad) if asked)
        return found

    def cuts(self, tensor: int, record: BackwardRecord) -> tuple[list[OpRecord], bool]:
        """Return (the ops where the paths from a tensor to a backward's roots leave the graph, whether values pass).

        The list is empty if a path stays in the graph. Paths that only choose among other values, as an index or a mask
        does, count if there are no others; the second result is then False.
        """
        ends = self._ends(tensor, record)
        if None in ends and all(record.id != other.id for other in self.facts.reaching(tensor)):
            ends = self._ends(tensor, record, through_derivatives=False)  # the derivatives do not depend on it
        if None in ends:
            return [], True
        values = [way for way in ends if way is not None and way >= 0]
        choices = [~way for way in ends if way is not None and way < 0]
        return [self.facts.trace.ops[number] for number in dict.fromkeys(values or choices)], bool(values)

    def _ends(self, tensor: int, record: BackwardRecord, through_derivatives: bool = True) -> list[int | None]:
        """Return how a tensor's values get to the roots: in the graph (None), cut by an op, or as a choice (~op)."""
        trace = self.facts.trace
        # tensor -> cuts on the paths to it; None: no cut; ~cut: only as a choice among other values
        reached: dict[int, set[int | None]] = {tensor: {None}}
        for number in self.upstream(record):
            op = trace.ops[number]
            ways = self._into(op, reached, tensor) if through_derivatives or op.kind != "grad" else set()
            if not ways:
                continue
            for output, kept in zip(op.outputs, kept_graphs(op)):
                if output == tensor:
                    continue  # a write into the tensor itself is not a path to a root
                aside = (
                    any(op.outputs_require_grad) and not trace.tensors[output].floating
                )  # the indices that topk returns with values
                passed = {way if way is not None or kept else ~op.id if aside else op.id for way in ways}
                reached.setdefault(output, set()).update(passed)
                if output in op.writes:
                    for other in self.facts.memory[trace.tensors[output].memory]:
                        if other != tensor and trace.tensors[other].time < op.time:
                            cut = None if other == output else self.facts.cut_between(output, other)
                            reached.setdefault(other, set()).update(cut if way is None else way for way in passed)
        return [way for root in record.roots for way in reached.get(root, ()) if root != tensor]

    def _into(self, op: OpRecord, reached: dict[int, set[int | None]], start: int) -> set[int | None]:
        found: set[int | None] = set()
        tensors = self.facts.trace.tensors
        for number, asked in zip(op.inputs, op.inputs_require_grad):
            if number == start and not asked:
                continue  # frozen at the time: this use expects no gradient
            ways = {op.id if way is None and not asked else way for way in reached.get(number, ())}
            if op.name in CHOOSES and not tensors[number].floating:
                ways = {way if way is None or way < 0 else ~way for way in ways}
            found |= ways
        for number in op.scalars:
            for way in reached.get(number, ()):
                found.add((self.facts.passed_to_python(number, op) or op).id if way is None else way)
        return found

    # --- selecting passes and cuts

    def passes_before(self, consumer: GradEvent, earlier: int) -> list[BackwardRecord]:
        """Return the backward passes from which a read or step could have expected a gradient, latest first."""
        records = [
            record for record in self.facts.trace.backwards
            if earlier < record.time < consumer.time and record.id in self.facts.differentiated
        ]  # fmt: skip
        return records[::-1]

    def worst(self, cuts: list[OpRecord]) -> OpRecord:
        """Return the cut that is least likely to be intended; of equal ones, the latest."""
        return max(cuts, key=lambda op: (weight(op), not self.is_straight_through(op), op.time))

    def is_straight_through(self, op: OpRecord) -> bool:
        """Whether a cut is the one in `z + (q - z).detach()`, a straight-through estimator."""
        made = self.facts.maker(op.inputs[0], op.time) if op.name in _EXPLICIT and op.inputs else None
        if made is None or made.name.strip("_") not in ("sub", "rsub"):
            return False
        takers = [self.facts.trace.ops[number] for number in self.facts.uses.get(op.outputs[0], ())]
        return any(not set(taker.inputs).isdisjoint(made.inputs) for taker in takers)


def weight(op: OpRecord) -> int:
    """Return how likely a cut is a mistake, from 3 to 1.

    3: values that pass through Python or become integers; 2: an explicit detach; 1: gradient mode off, comparisons and
    random draws, which are mostly intended.
    """
    if op.kind == "grad":
        return 3  # autograd.grad without create_graph
    if not op.grad_mode or op.name in _COMPARES or op.name.rstrip("_") in DRAWS:
        return 1
    return 2 if op.name in _EXPLICIT else 3


def may_be_meant(op: OpRecord) -> bool:
    """Whether a cut may be intended: a detach, or gradient mode off."""
    return op.kind != "grad" and (not op.grad_mode or op.name in _EXPLICIT)
