"""freed-graph: a backward needs what an earlier one freed."""

from __future__ import annotations

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import failed_backward
from undertow.why.finding import Finding, fact
from undertow.why.trace import BackwardRecord, ErrorRecord, OpRecord


class FreedGraph(Cause):
    """"Trying to backward through the graph a second time"."""

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
            "This backward frees the graph that it goes through, and a later backward needs a part of it again.",
            [fact("the first backward frees the graph", first.place), fact("the second one fails", record.place)],
            "loss.backward(retain_graph=True) in the first call; or add the losses and differentiate once",
            [shared],
        )

    def _carried(
        self, facts: Facts, record: BackwardRecord, first: BackwardRecord, carrier: OpRecord, nodes: set[int]
    ) -> Finding:
        old = _old_input(facts, carrier, nodes)
        name = next((name for name in map(facts.name, (old, carrier.outputs[0])) if " " not in name), facts.name(old))
        state = name if name.replace(".", "").isidentifier() else "state"
        return Finding(
            self.code,
            carrier.place,
            name,
            f"{carrier.name} takes a tensor of the pass before, whose graph that pass's backward has freed.",
            [
                fact("the tensor was computed", facts.made_at(old)),
                fact("backward freed its graph", first.place),
                fact(f"{carrier.name} carries it into the next pass", carrier.place),
                fact("whose backward fails", record.place),
            ],
            f"{state} = {state}.detach()  # before the next pass uses it"
            if _is_made_again(facts, old, first, record)
            else "loss.backward(retain_graph=True) in all calls but the last; or add the losses and differentiate once",
        )


def _freed(facts: Facts, record: BackwardRecord) -> dict[int, int]:
    """Nodes that a failed backward reached and an earlier one had freed -> that earlier one."""
    backwards = facts.trace.backwards
    found = {}
    for node in facts.trace.nodes:
        if node.leaf is None and record.id in node.reached:
            earlier = [number for number in node.ran if number < record.id and backwards[number].frees]
            if earlier:
                found[node.id] = earlier[0]
    return found


def _before(facts: Facts, record: BackwardRecord, first: BackwardRecord) -> set[int]:
    """Nodes of a failed backward that are older than the backward that freed a part of them."""
    ops = facts.trace.ops
    return {
        node.id
        for node in facts.trace.nodes
        if node.leaf is None and node.op is not None and record.id in node.reached and ops[node.op].time < first.time
    }


def _carrier(facts: Facts, record: BackwardRecord, old: set[int]) -> OpRecord | None:
    """The first op whose own node stands on an old one."""
    found = [
        facts.trace.ops[node.op]
        for node in facts.trace.nodes
        if node.op is not None and node.id not in old and record.id in node.reached and old & set(node.next)
    ]
    return min(found, key=lambda op: op.time, default=None)


def _old_input(facts: Facts, op: OpRecord, old: set[int]) -> int:
    """The input of an op that comes from an old graph."""
    for number in op.inputs:
        if old & set(facts.nodes_of(number)):
            return number
    return op.inputs[0]


def _is_made_again(facts: Facts, tensor: int, first: BackwardRecord, record: BackwardRecord) -> bool:
    """Whether the line that made a tensor ran again between two backwards: a state that goes from round to round."""
    made = facts.made_at(tensor)
    return made is None or any(
        op.place is not None and op.place.key == made.key and first.time < op.time < record.time for op in facts.trace.ops
    )
