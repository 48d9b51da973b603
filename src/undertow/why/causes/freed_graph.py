"""freed-graph: a backward needs what an earlier one freed."""

from __future__ import annotations

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import failed_backward
from undertow.why.finding import Finding, fact
from undertow.why.source import carried_over
from undertow.why.trace import BackwardRecord, ErrorRecord, OpRecord


class FreedGraph(Cause):
    """ "Trying to backward through the graph a second time"."""

    code = "freed-graph"
    meaning = "a backward needs a part that an earlier backward freed"
    needs = "which nodes each backward went through, and which op took a freed tensor"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        record = failed_backward(facts, error)
        if record is None or "a second time" not in error.message:
            return None
        freed = _freed(facts, record)
        if not freed:
            return None
        first = facts.trace.backwards[max(freed.values())]
        same_line = first.place is not None and record.place is not None and first.place.key == record.place.key
        old = _before(facts, record, first)
        carrier = _carrier(facts, record, old)
        if same_line and carrier is not None:
            return self._carried(facts, record, first, carrier, old)
        subject = facts.name(record.roots[0])
        taker = _carrier(facts, record, set(freed))
        shared = None if taker is None else facts.made_at(_old_input(facts, taker, set(freed)))
        return Finding(
            self.code,
            first.place,
            subject,
            "This backward frees its graph, and a later backward needs a part of it again.",
            [fact("the first backward frees the graph", first.place), fact("the second one fails", record.place)],
            f"{_call(facts, first)} here; or add the losses and differentiate once",
            [shared],
        )

    def _carried(
        self, facts: Facts, record: BackwardRecord, first: BackwardRecord, carrier: OpRecord, nodes: set[int]
    ) -> Finding:
        old = _old_input(facts, carrier, nodes)
        name = _name(facts, carrier, old)
        old_name = "a tensor" if " " in name else name
        return Finding(
            self.code,
            carrier.place,
            name,
            f"This line uses {old_name}, whose graph belongs to an earlier pass, and that pass's backward has freed it.",
            [
                fact(f"{old_name} was computed", facts.made_at(old)),
                fact("backward freed its graph", first.place),
                fact("it is carried into the next pass", carrier.place),
                fact("whose backward fails", record.place),
            ],
            _cure(facts, name, old, first, record),
            list(carrier.place.chain()) if carrier.place is not None else [],
        )


def _name(facts: Facts, carrier: OpRecord, old: int) -> str:
    """Return the name of a tensor carried into the next pass: `state` in `out, state = cell(x, state)`."""
    name = facts.name(old)
    if " " not in name or carrier.place is None:
        return name
    for place in carrier.place.chain():
        carried = carried_over(place)
        if carried:
            known = {name for tensor in facts.trace.tensors for name in tensor.names}
            return next((name for name in sorted(known) if name.startswith(f"{carried}[")), carried)
    made = facts.name(carrier.outputs[0])
    return name if " " in made else made


def _cure(facts: Facts, name: str, old: int, first: BackwardRecord, record: BackwardRecord) -> str:
    """Return the cure for a tensor that is carried into the next pass."""
    if _is_made_again(facts, old, first, record):
        whole, _, place = name.partition("[")
        if place:
            whole = whole if _is_variable(whole) else "state"
            return f"{whole} = tuple(part.detach() for part in {whole})  # before the next pass uses it"
        state = name if _is_variable(name) else "state"
        return f"{state} = {state}.detach()  # before the next pass uses it"
    if any(first.time < step.time < record.time for optimizer in facts.trace.optimizers for step in optimizer.steps):
        it = name if _is_variable(name) else "it"
        return f"compute {it} anew in each pass; or {it}.detach(), if its own gradient is not wanted"
    return f"{_call(facts, first)} in all calls but the last; or add the losses and differentiate once"


def _is_variable(name: str) -> bool:
    return name.replace(".", "").isidentifier()


def _called(facts: Facts, record: BackwardRecord) -> str:
    """Return the program's name for the root of a backward pass."""
    name = facts.name(record.roots[0]) if record.roots else ""
    return name if _is_variable(name) else "loss"


def _call(facts: Facts, record: BackwardRecord) -> str:
    """Return a backward call with retain_graph=True."""
    if record.kind == "grad":
        return "torch.autograd.grad(..., retain_graph=True)"
    return f"{_called(facts, record)}.backward(retain_graph=True)"


def _freed(facts: Facts, record: BackwardRecord) -> dict[int, int]:
    """Return the nodes that a failed backward reached, mapped to the earlier backward that had freed them."""
    backwards = facts.trace.backwards
    found = {}
    for node in facts.trace.nodes:
        if node.leaf is None and record.id in node.reached:
            earlier = [number for number in node.ran if number < record.id and backwards[number].frees]
            if earlier:
                found[node.id] = earlier[0]
    return found


def _before(facts: Facts, record: BackwardRecord, first: BackwardRecord) -> set[int]:
    """Return the nodes of a failed backward that are older than the backward that freed some of them."""
    ops = facts.trace.ops
    return {
        node.id
        for node in facts.trace.nodes
        if node.leaf is None and node.op is not None and record.id in node.reached and ops[node.op].time < first.time
    }


def _carrier(facts: Facts, record: BackwardRecord, old: set[int]) -> OpRecord | None:
    """Return the first new op whose node leads to an old one."""
    found = [
        facts.trace.ops[node.op]
        for node in facts.trace.nodes
        if node.op is not None and node.id not in old and record.id in node.reached and old & set(node.next)
    ]
    return min(found, key=lambda op: op.time, default=None)


def _old_input(facts: Facts, op: OpRecord, old: set[int]) -> int:
    """Return the input of an op that comes from an old graph."""
    for number in op.inputs:
        if old & set(facts.nodes_of(number)):
            return number
    return op.inputs[0]


def _is_made_again(facts: Facts, tensor: int, first: BackwardRecord, record: BackwardRecord) -> bool:
    """Whether the line that made a tensor ran again between two backward passes: a state carried between rounds."""
    made = facts.made_at(tensor)
    if made is None:
        return True
    way = [place.key for place in made.chain()]
    between = [op.place for op in facts.trace.ops if first.time < op.time < record.time and op.place is not None]
    return any(place.key == made.key and [outer.key for outer in place.chain()] == way for place in between)
