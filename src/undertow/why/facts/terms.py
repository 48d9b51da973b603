"""The terms of a loss: which of them lead back to the parameters of the step, and where the others were cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from undertow.why.facts.facts import Facts
from undertow.why.facts.flow import kept_graphs
from undertow.why.facts.paths import CHOOSES, DRAWS, may_be_meant
from undertow.why.facts.wasted import wasted
from undertow.why.followed_values import numbers_in
from undertow.why.places import Place
from undertow.why.trace import BackwardRecord, OpRecord

_ADDS = frozenset("add radd iadd sub rsub isub".split())
_KEEPS_TERMS = frozenset(
    "sum mean neg mul rmul imul div truediv itruediv view reshape squeeze unsqueeze stack cat flatten".split()
)
_COMPARES = frozenset(
    "kl_div cross_entropy mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits".split()
)  # the prediction first, then the target
_PASSES = 3  # backward passes of one line that are examined


class DeadTerm(NamedTuple):
    """A term of a loss whose values depend on parameters of the step, and whose graph does not."""

    record: BackwardRecord
    term: int | None  # its tensor; None: a Python number
    place: Place | None  # the op that adds it; None: it is a loss by itself, differentiated on its own
    cut: OpRecord
    cuts: frozenset[int]  # all cuts on its paths
    frozen: int | None = None  # a frozen tensor of the optimizer that the term would train


class _Term(NamedTuple):
    record: BackwardRecord
    tensor: int | None
    op: OpRecord  # the op that adds it
    position: int  # among its operands; -1: a Python number
    cut: OpRecord | None = None
    cuts: frozenset[int] = frozenset()
    frozen: int | None = None


def dead_terms(facts: Facts) -> list[DeadTerm]:
    """Return the terms of differentiated losses through which no parameter of the step gets a gradient."""
    dead: list[_Term] = []
    alive: set[object] = set()
    passes: dict[object, int] = defaultdict(int)
    for record in facts.trace.backwards:
        if record.kind != "backward" or record.place is None or passes[record.place] >= _PASSES:
            continue
        served = _served(facts, record)
        if served:
            passes[record.place] += 1
            for term in _Terms(facts, record, served).each():
                if term.cut is None:
                    alive.add(_same(facts, term))
                else:
                    dead.append(term)
    found = [
        DeadTerm(term.record, term.tensor, term.op.place, term.cut, term.cuts, term.frozen)
        for term in dead if term.cut is not None and _same(facts, term) not in alive
    ]  # fmt: skip
    return found + _dead_losses(facts)


def is_prediction(facts: Facts, dead: DeadTerm, parameters: set[int]) -> bool:
    """Whether values behind a detach are what a loss function compares with a target that comes from some parameters.

    The values do not go through the parameters themselves, as those of a probe do.
    """
    if dead.cut.kind != "cut":
        return False
    ops = facts.trace.ops
    taken = [ops[number] for output in dead.cut.outputs for number in facts.flow(output).taken]
    if any(not parameters.isdisjoint(op.inputs) for op in taken):
        return False
    behind = {output for output in dead.cut.outputs for output in facts.flow(output).stops}
    return any(op.name in _COMPARES and op.inputs and op.inputs[0] in behind for op in taken)


def _dead_losses(facts: Facts) -> list[DeadTerm]:
    """Return losses whose backward passes are in vain, and which were cut from the parameters of the next step.

    The step uses other losses; one that writes gradients of another optimizer's parameters only is meant for it, unless
    that optimizer never steps: then the step is what is missing.
    """
    found = []
    for one in facts.once(wasted):
        owners = [other for other in facts.trace.optimizers if not other.tensors.keys().isdisjoint(one.record.written)]
        if one.optimizer in owners or not all(other.steps for other in owners):
            continue
        terms = _Terms(facts, one.record, set(one.optimizer.tensors))
        for root in one.record.roots:
            cuts = terms.cuts.get(root, set())
            cut = terms.worst(cuts)
            if cut is not None and not facts.paths.is_straight_through(cut):
                found.append(DeadTerm(one.record, root, None, cut, frozenset(cuts)))
    return found


def _same(facts: Facts, term: _Term) -> object:
    """Return what is equal for one term in all passes: a term that is alive in one of them is dead on purpose."""
    made = None if term.tensor is None else facts.made_at(term.tensor)
    return term.op.place, term.position, None if made is None else made.key


def _served(facts: Facts, record: BackwardRecord) -> set[int]:
    """Return the tensors whose optimizers step with the gradients that a backward pass wrote."""
    found: set[int] = set()
    for optimizer in facts.trace.optimizers:
        for tensor in optimizer.tensors.keys() & record.written.keys():
            later = [event for event in facts.grads[tensor] if event.time > record.end]
            used = next((event for event in later if event.kind in ("step", "clear", "set")), None)
            if used is not None and used.kind == "step" and used.optimizer == optimizer.id:
                found.update(optimizer.tensors)
                break
    return found


class _Terms:
    """One backward pass: which tensors its root was computed from lead back to the parameters, or were cut from them."""

    def __init__(self, facts: Facts, record: BackwardRecord, served: set[int]) -> None:
        self.facts = facts
        self.record = record
        self.served = served
        self.alive = set(served)
        self.cuts: dict[int, set[int]] = defaultdict(set)
        self.frozen: dict[int, int] = {}  # tensor -> the frozen tensor that it was computed from
        # Values from before the last step are states that are carried on, not terms of this step.
        steps = [step.end for one in facts.trace.optimizers if one.tensors.keys() & served for step in one.steps]
        self.since = max((end for end in steps if 0 <= end < record.time), default=-1)
        self._spread()

    def _spread(self) -> None:
        facts, ops = self.facts, self.facts.trace.ops
        known = set(facts.paths.upstream(self.record))
        fresh = {number for number in known if ops[number].time > self.since}
        waiting = sorted(fresh)
        while waiting:  # what Python numbers were computed from
            more: set[int] = set()
            for number in waiting:
                for left in self._numbers(ops[number]):
                    more |= facts.paths.ancestors([(taken, left.time) for taken in left.inputs])
            waiting = sorted(number for number in more - fresh if ops[number].time > self.since)
            fresh.update(waiting)
        for number in sorted(fresh):
            self._take(ops[number])

    def _numbers(self, op: OpRecord) -> list[OpRecord]:
        """Return the ops that passed the numbers in an op's expression to Python: `mse + 0.5 * kl.item()`."""
        plain = op.kind == "enters" or (op.name.strip("_") in _ADDS and len(op.inputs) == 1)
        if not plain or op.place is None:
            return []
        mentioned = numbers_in(op.place)
        return [
            left for key in mentioned for left in self.facts.leaving.get(key, ())
            if self.since < left.time < op.time
        ]  # fmt: skip

    def _take(self, op: OpRecord) -> None:
        trace = self.facts.trace
        if not self.served.isdisjoint(op.writes):
            return  # an initialization
        alive, cuts = False, set[int]()
        for number, asked in zip(op.inputs, op.inputs_require_grad):
            chooses = op.name in CHOOSES and not trace.tensors[number].floating
            if number in self.alive and asked:
                alive = True
            elif number in self.alive and not trace.tensors[number].parameter:
                cuts.add(op.id)
            if number in self.served and not asked and op.grad_mode:
                self.frozen[number] = number
            if not chooses:
                cuts |= self.cuts.get(number, set())
        for number in op.scalars:
            cuts |= self._left(number, op)
        for left in self._numbers(op):
            for number in left.inputs:
                cuts |= {left.id} if number in self.alive else self.cuts.get(number, set())
        frozen = next((self.frozen[number] for number in op.inputs if number in self.frozen), None)
        for output, kept in zip(op.outputs, kept_graphs(op)):
            aside = any(op.outputs_require_grad) and not trace.tensors[output].floating  # the indices of topk
            here = cuts | {op.id} if alive and not kept and not aside else cuts
            same = [output]
            if output in op.writes:
                same += [
                    other for other in self.facts.memory[trace.tensors[output].memory]
                    if trace.tensors[other].time < op.time and self.facts.cut_between(output, other) is None
                ]  # fmt: skip
            for tensor in same:
                self.cuts[tensor] |= here
                if frozen is not None and op.kind == "op":
                    self.frozen[tensor] = frozen
                if alive and kept:
                    self.alive.add(tensor)

    def _left(self, tensor: int, op: OpRecord) -> set[int]:
        if tensor not in self.alive:
            return self.cuts.get(tensor, set())
        return {(self.facts.passed_to_python(tensor, op) or op).id}

    # --- terms

    def each(self) -> Iterator[_Term]:
        """Yield the terms of the roots; those that are alive have no cut."""
        seen: set[tuple[int, int]] = set()
        stack: list[tuple[int, int, OpRecord | None, int, tuple[int, ...]]] = [
            (root, self.record.time, None, 0, ()) for root in self.record.roots
        ]
        while stack:
            tensor, before, adds, position, outer = stack.pop()
            if (tensor, before) in seen:
                continue
            seen.add((tensor, before))
            op = self.facts.maker(tensor, before)
            name = "" if op is None else op.name.strip("_")
            if op is not None and op.time > self.since and name in _ADDS:
                if len(op.inputs) == 1:
                    stack.append((op.inputs[0], op.time, adds or op, position, (*outer, tensor)))
                else:
                    stack += [(number, op.time, op, place, ()) for place, number in enumerate(op.inputs)]
                cuts = {left.id for left in self._numbers(op) if self._depends(left)}
                cut = self.worst(cuts)
                if cut is not None and not self._is_elementwise(op):
                    yield _Term(self.record, None, op, -1, cut, frozenset(cuts))
                continue
            if adds is not None and tensor not in self.alive:
                cuts = self.cuts.get(tensor, set())
                cut = self.worst(cuts)
                if cut is not None and not self._is_meant(cut, adds):
                    called = self._called(*outer, tensor)
                    yield _Term(self.record, called, adds, position, cut, frozenset(cuts), self.frozen.get(tensor))
                continue
            if adds is not None:
                yield _Term(self.record, self._called(*outer, tensor), adds, position)
            if op is not None and op.time > self.since and name in _KEEPS_TERMS:
                parts = [taken for taken in op.inputs if taken in self.alive or self.cuts.get(taken)]
                if len(parts) == 1 or name in ("stack", "cat"):
                    for place, number in enumerate(parts):
                        one = len(parts) == 1
                        stack.append(
                            (number, op.time, adds, position, (*outer, tensor))
                            if one
                            else (number, op.time, op, place, ())
                        )

    def _called(self, *tensors: int) -> int:
        """Return the tensor by which a term is best called: the outermost with a variable, of `0.1 * reg` and `reg`."""
        return next((one for one in tensors if self.facts.name(one).isidentifier()), tensors[0])

    def _is_elementwise(self, op: OpRecord) -> bool:
        """Whether an op adds many values, not terms of a loss."""
        return any(self.facts.trace.tensors[output].size > 1 for output in op.outputs)

    def _depends(self, left: OpRecord) -> bool:
        return any(number in self.alive or self.cuts.get(number) for number in left.inputs)

    def worst(self, cuts: set[int]) -> OpRecord | None:
        """Return the cut that is least likely to be intended; None if all are draws, which have no derivative."""
        found = [op for op in map(self._origin, cuts) if op.name.rstrip("_") not in DRAWS]
        return self.facts.paths.worst(found) if found else None

    def _origin(self, number: int) -> OpRecord:
        """Return the op that cut the graph before a value was passed to Python: the detach in `p.detach().numpy()`."""
        op = self.facts.trace.ops[number]
        before = {cut for taken in op.inputs for cut in self.cuts.get(taken, ()) if taken not in self.alive}
        return self.facts.trace.ops[max(before)] if op.kind == "leaves" and before else op

    def _is_meant(self, cut: OpRecord, adds: OpRecord) -> bool:
        """Whether a cut stops a gradient on purpose: the value it takes is a term, too: `lp - lp.detach()`."""
        if not set(cut.inputs).isdisjoint(adds.inputs):
            return True
        if self._is_elementwise(adds) and may_be_meant(cut):
            return True  # a baseline
        tensors = self.facts.trace.tensors
        scalar = [number for number in cut.inputs if tensors[number].size == 1 and number in self.alive - self.served]
        terms = self.facts.paths.in_graph(self.record)
        return self.facts.paths.is_straight_through(cut) or any(number in terms for number in scalar)
