"""A state with its graph that one pass carries into the next: its name, the op that takes it, where to detach it."""

from __future__ import annotations

from undertow.why.facts.facts import Facts
from undertow.why.places import Place
from undertow.why.source import carried_over
from undertow.why.statements import is_bare
from undertow.why.trace import BackwardRecord, OpRecord


def carried_name(facts: Facts, taken_by: OpRecord, old: int) -> str:
    """Return the name of a tensor carried into the next pass: `state` in `out, state = cell(x, state)`."""
    name = facts.name(old)
    if is_variable(name) or facts.trace.tensors[old].names or taken_by.place is None:
        return name
    for place in taken_by.place.chain():
        carried = carried_over(place)
        if carried:
            known = {name for tensor in facts.trace.tensors for name in tensor.names}
            return next((name for name in sorted(known) if name.startswith(f"{carried}[")), carried)
    made = facts.name(taken_by.outputs[0])
    return made if is_variable(made) else name


def is_variable(name: str) -> bool:
    return name.replace(".", "").isidentifier()


def older_than(facts: Facts, record: BackwardRecord, first: BackwardRecord) -> set[int]:
    """Return the nodes of a failed backward that are older than the backward that freed some of them."""
    ops = facts.trace.ops
    return {
        node.id
        for node in facts.trace.nodes
        if node.leaf is None and node.op is not None and record.id in node.reached and ops[node.op].time < first.time
    }


def carrier(facts: Facts, record: BackwardRecord, old: set[int]) -> OpRecord | None:
    """Return the first new op whose node leads to an old one."""
    found = [
        facts.trace.ops[node.op]
        for node in facts.trace.nodes
        if node.op is not None and node.id not in old and record.id in node.reached and old & set(node.next)
    ]
    return min(found, key=lambda op: op.time, default=None)


def old_input(facts: Facts, op: OpRecord, old: set[int]) -> int:
    """Return the input of an op that comes from an old graph."""
    for number in op.inputs:
        if old & set(facts.nodes_of(number)):
            return number
    return op.inputs[0]


def is_made_again(facts: Facts, tensor: int, first: BackwardRecord, record: BackwardRecord) -> bool:
    """Whether the line that made a tensor ran again between two backward passes: a state carried between rounds."""
    made = facts.made_at(tensor)
    if made is None:
        return True
    way = [place.key for place in made.chain()]
    between = [op.place for op in facts.trace.ops if first.time < op.time < record.time and op.place is not None]
    return any(place.key == made.key and [outer.key for outer in place.chain()] == way for place in between)


def without_graph(name: str) -> str:
    """Return the statement that detaches a carried state, named as the program names it."""
    whole, _, place = name.partition("[")
    if place:
        whole = whole if is_variable(whole) else "state"
        return f"{whole} = tuple(part.detach() for part in {whole})  # before the next pass uses it"
    state = name if is_variable(name) else "state"
    return f"{state} = {state}.detach()  # before the next pass uses it"


def dropped_detach(facts: Facts, tensor: int, record: BackwardRecord) -> Place | None:
    """Return the statement that detaches a carried tensor and drops the result: `h.detach()`."""
    for op in (facts.trace.ops[number] for number in facts.uses.get(tensor, ())):
        if op.name == "detach" and op.time < record.time and op.place is not None and not facts.uses.get(op.outputs[0]):
            bare = next((place for place in op.place.chain() if is_bare(place)), None)
            if bare is not None:
                return bare
    return None
