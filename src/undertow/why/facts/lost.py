"""What became of a tensor that asked for a gradient and got none: unused, cut off, or left undifferentiated."""

from __future__ import annotations

from dataclasses import dataclass

from undertow.why.facts.facts import Facts
from undertow.why.facts.flow import Flow
from undertow.why.facts.origin import code_of_cut, place_of_cut
from undertow.why.places import Place
from undertow.why.source import only_looked_at
from undertow.why.trace import OpRecord


@dataclass(slots=True)
class Lost:
    """`cut`: the op that took it out of the graph; `sink`: the end of a recorded path that nobody differentiated."""

    code: str
    place: Place | None
    flow: Flow
    cut: OpRecord | None = None
    sink: int | None = None


def lost(facts: Facts, tensor: int) -> Lost:
    """Follows a tensor to where its gradient was lost.

    A recorded path that mixed in other tensors and ends undifferentiated is a loss that was forgotten, also where a
    detached copy went elsewhere (a GAN's generator). Otherwise the first cut on the way to a root is the cause, then a
    value that went through Python.
    """
    flow = facts.flow(tensor)
    ops = facts.trace.ops
    candidates = [cut.op for cut in flow.cuts]
    escaped = [cut for left, cut in flow.escapes if _comes_back(facts, ops[left])]
    before_cut = {number for cut in (*candidates, *escaped) for number in ops[cut].inputs}
    ends = [end for end in flow.sinks if end != tensor]
    forgotten = [end for end in ends if end not in before_cut and flow.mixes(end, before_cut)]
    if forgotten:
        return _undifferentiated(facts, flow, forgotten)
    for cut in (*candidates, *escaped):
        return Lost(code_of_cut(ops[cut]), place_of_cut(ops[cut]), flow, cut=ops[cut])
    if ends and flow.is_used:
        return _undifferentiated(facts, flow, ends)
    if flow.is_used:
        unrecorded = [stop.cut for stop in flow.stops.values() if stop.cut is not None]
        if unrecorded:
            op = ops[min(unrecorded)]
            return Lost(code_of_cut(op), place_of_cut(op), flow, cut=op)
    return Lost("unused", facts.made_at(tensor), flow)


def _comes_back(facts: Facts, left: OpRecord) -> bool:
    """Whether a value that went to Python may have come back: it was not just looked at, and something entered later."""
    if only_looked_at(left.place, facts.ran(left.place)):
        return False
    if left.name in ("numpy", "__array__", "tolist"):
        return any(op.kind == "enters" and op.time > left.time for op in facts.trace.ops)
    return True


def _undifferentiated(facts: Facts, flow: Flow, ends: list[int]) -> Lost:
    """The last end of a recorded path, a scalar if there is one."""
    tensors = facts.trace.tensors
    scalars = [end for end in ends if tensors[end].size == 1]
    end = max(scalars or ends, key=lambda number: flow.stops[number].since)
    stop = flow.stops[end]
    op = None if stop.op is None else facts.trace.ops[stop.op]
    code = "dead-branch" if any(_shares_graph(facts, flow, other) for other in ends) else "no-backward"
    return Lost(code, None if op is None else op.place, flow, sink=end)


def _shares_graph(facts: Facts, flow: Flow, end: int) -> bool:
    """Whether a backward() reached some op of the graph behind a tensor, or of the module call that made it."""
    nodes = facts.trace.nodes
    behind = facts.below(facts.nodes_of(end))
    if any(nodes[node].leaf is None and facts.was_reached(node) for node in behind):
        return True
    calls = {facts.outermost(facts.trace.ops[number].call) for number in flow.path(end)} - {None}
    return any(call in facts.reached_calls for call in calls)
