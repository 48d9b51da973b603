"""Find where the gradient of a tensor that requires grad was lost: unused, cut from the graph, or not differentiated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from undertow.why.facts.facts import Facts
from undertow.why.facts.flow import Flow
from undertow.why.facts.graph_cuts import code_of_cut, place_of_cut
from undertow.why.facts.paths import weight
from undertow.why.followed_values import only_looked_at
from undertow.why.places import Place
from undertow.why.trace import BackwardRecord, GradEvent, OpRecord


@dataclass(slots=True)
class Lost:
    """Where a gradient was lost.

    `cut`: the op that left the graph; `sink`: the end of a recorded path that was never differentiated.
    """

    code: str
    place: Place | None
    flow: Flow
    cut: OpRecord | None = None
    sink: int | None = None


def lost(facts: Facts, tensor: int, consumers: list[GradEvent] | None = None) -> Lost:
    """Follow a tensor to where its gradient was lost.

    Backward passes before the read or step that missed the gradient are examined, the latest first. Explanations are
    tried in this order:

    1. the values reach the root through integers, or through Python if no pass served the step;
    2. a scalar computed from the tensor is neither differentiated nor read: a forgotten loss;
    3. an explicit cut on the path to a root that served the same step;
    4. a scalar that is read, but not differentiated;
    5. any other cut, then values that passed through Python;
    6. any other result that was not differentiated, a `state_dict()`, an unrecorded use; otherwise: unused.

    `consumers`: the reads and steps that missed the gradient; by default, one read at the end of the run.
    """
    flow = facts.flow(tensor)
    ops = facts.trace.ops
    escaped = [ops[cut] for left, cut in flow.escapes if _comes_back(facts, ops[left])]
    left = forgotten(facts, flow, escaped)
    way = graph_exit(facts, tensor, consumers or [GradEvent(facts.trace.time + 1, "read", tensor, None)])
    found = way.cut
    if found is not None and way.values and weight(found) > 2:
        if not way.others or (way.meant and found.kind == "op"):  # beside another loss, the number may be intended
            return _cut_off(flow, found)
    unread = unread_of(facts, left)
    if unread:  # not even printed: it can only have been meant as a loss
        return _undifferentiated(facts, flow, unread)
    if found is not None and way.meant and weight(found) > 1:
        return _cut_off(flow, found)
    if left:
        return _undifferentiated(facts, flow, left)
    for cut in (found, *escaped):
        if cut is not None:
            return _cut_off(flow, cut)
    ends = [end for end in flow.sinks if end != tensor]
    if ends and flow.is_used:
        return _undifferentiated(facts, flow, ends)
    saved = _through_state_dict(facts, tensor)
    if saved is not None:
        return _cut_off(flow, saved)
    if flow.is_used:
        tensors = facts.trace.tensors
        unrecorded = {end: stop.cut for end, stop in flow.stops.items() if stop.cut is not None}
        losses = [cut for end, cut in unrecorded.items() if tensors[end].shape == () and flow.mixes(end)]
        if unrecorded:
            return _cut_off(flow, ops[min(losses or unrecorded.values())])
    return Lost("unused", facts.made_at(tensor), flow)


def _through_state_dict(facts: Facts, tensor: int) -> OpRecord | None:
    """Return a state_dict() call whose values were differentiated instead of the parameters."""
    ops, uses = facts.trace.ops, facts.uses
    for op in (ops[number] for number in uses.get(tensor, ())):
        if op.name == "state_dict" and op.internal:
            takers = [ops[number] for output in op.outputs for number in uses.get(output, ())]
            if any(taker.id in facts.paths.differentiated and not taker.writes for taker in takers):
                return op
    return None


def _cut_off(flow: Flow, op: OpRecord) -> Lost:
    return Lost(code_of_cut(op), place_of_cut(op), flow, cut=op)


class GraphExit(NamedTuple):
    """How a tensor left the graph. `cut`: the op that left it on the path to a root, if any did."""

    cut: OpRecord | None = None
    values: bool = False  # the tensor's values reach the root; False: it only chooses among other values
    meant: bool = False  # the backward pass served the same step
    others: bool = False  # some pass wrote gradients of other tensors of the same optimizer


def graph_exit(facts: Facts, tensor: int, consumers: list[GradEvent]) -> GraphExit:
    """Return how a tensor left the graph on the path to a root.

    Passes that served the step come first, and the latest of them counts.
    """
    for consumer in consumers[:3]:
        records = facts.paths.passes_before(consumer, _step_before(facts, consumer))
        for record in sorted(records, key=lambda record: not _is_meant(facts, consumer, record)):
            cuts, values = facts.paths.cuts(tensor, record)
            if cuts:
                others = any(_gives(facts, consumer, other) for other in facts.trace.backwards)
                return GraphExit(facts.paths.worst(cuts), values, _is_meant(facts, consumer, record), others)
    return GraphExit()


def unread_of(facts: Facts, ends: list[int]) -> list[int]:
    """Return the tensors whose values are never passed to Python, not even to be printed."""
    ops = facts.trace.ops
    return [end for end in ends if not any(ops[use].kind == "leaves" for use in facts.uses.get(end, ()))]


def _step_before(facts: Facts, consumer: GradEvent) -> int:
    """Return the time of the optimizer's previous step; earlier backward passes did not serve this one."""
    if consumer.optimizer is None:
        return -1
    steps = facts.trace.optimizers[consumer.optimizer].steps
    return max((step.time for step in steps if 0 <= step.end < consumer.time), default=-1)


def _is_meant(facts: Facts, consumer: GradEvent, record: BackwardRecord) -> bool:
    """Whether a backward pass served the optimizer of a step; for a read, any pass did."""
    return consumer.optimizer is None or facts.is_for(record, consumer.optimizer)


def _gives(facts: Facts, consumer: GradEvent, record: BackwardRecord) -> bool:
    """Whether a backward pass wrote gradients of tensors of the same optimizer."""
    if consumer.optimizer is None:
        return True
    return not facts.trace.optimizers[consumer.optimizer].tensors.keys().isdisjoint(record.written)


def forgotten(facts: Facts, flow: Flow, escaped: list[OpRecord]) -> list[int]:
    """Return scalars computed from the tensor and others that no differentiating pass starts from or goes through."""
    tensors = facts.trace.tensors
    ends = [end for end in flow.sinks if end != flow.start and tensors[end].size == 1 and flow.mixes(end)]
    if not ends:
        return []
    used = {number for cut in escaped for number in cut.inputs}
    for op in (facts.trace.ops[number] for number in facts.paths.differentiated):
        used.update((*op.inputs, *op.scalars))
    used.update(root for record in facts.trace.backwards if record.id in facts.differentiated for root in record.roots)
    return [end for end in ends if end not in used]


def is_forgotten(facts: Facts, tensor: int) -> bool:
    """Whether a loss computed from the tensor was forgotten: not a root, and its value never read."""
    roots = {root for record in facts.trace.backwards for root in record.roots}
    return any(end not in roots for end in unread_of(facts, forgotten(facts, facts.flow(tensor), [])))


def _comes_back(facts: Facts, left: OpRecord) -> bool:
    """Whether a value that was passed to Python may have come back: not only inspected, and possibly used by a later op."""
    if only_looked_at(left.place, facts.ran):
        return False
    came = [op for op in facts.trace.ops if op.time > left.time and not set(left.inputs).isdisjoint(op.scalars)]
    if not came and left.name in ("numpy", "__array__", "tolist"):
        came = [op for op in facts.trace.ops if op.kind == "enters" and op.time > left.time]
    return not came or any(op.id in facts.paths.differentiated for op in came)


def _undifferentiated(facts: Facts, flow: Flow, ends: list[int]) -> Lost:
    """Return the loss of a gradient at the last end of a recorded path, a scalar if there is one."""
    tensors = facts.trace.tensors
    scalars = [end for end in ends if tensors[end].size == 1]
    end = max(scalars or ends, key=lambda number: flow.stops[number].since)
    stop = flow.stops[end]
    op = None if stop.op is None else facts.trace.ops[stop.op]
    code = "dead-branch" if any(_shares_graph(facts, flow, other) for other in ends) else "no-backward"
    return Lost(code, None if op is None else op.place, flow, sink=end)


def _shares_graph(facts: Facts, flow: Flow, end: int) -> bool:
    """Whether a backward pass reached a part of a tensor's graph, or an op of the module calls that lead to it."""
    nodes = facts.trace.nodes
    graph = facts.below(facts.nodes_of(end))
    if any(nodes[node].leaf is None and facts.was_reached(node) for node in graph):
        return True
    calls = {facts.outermost(facts.trace.ops[number].call) for number in flow.path(end)} - {None}
    return any(call in facts.reached_calls for call in calls)
