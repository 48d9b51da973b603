"""What became of a tensor that asked for a gradient and got none: unused, cut off, or left undifferentiated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from undertow.why.facts.facts import Facts
from undertow.why.facts.flow import Flow
from undertow.why.facts.origin import code_of_cut, place_of_cut
from undertow.why.facts.ways import weight
from undertow.why.places import Place
from undertow.why.source import only_looked_at
from undertow.why.trace import BackwardRecord, GradEvent, OpRecord


@dataclass(slots=True)
class Lost:
    """`cut`: the op that took it out of the graph; `sink`: the end of a recorded path that nobody differentiated."""

    code: str
    place: Place | None
    flow: Flow
    cut: OpRecord | None = None
    sink: int | None = None


def lost(facts: Facts, tensor: int, wants: list[GradEvent] | None = None) -> Lost:
    """Follow a tensor to where its gradient was lost.

    It is asked of the backward passes before the step or read that missed it, the latest first. Values that went to the
    root through integers, or through Python if nothing else went there, are the cause. A scalar that was computed from
    the tensor and that nobody even looks at is a loss that was forgotten. Then an explicit cut on the way to a root that
    gave gradients to the tensor's neighbours, an undifferentiated scalar that is only looked at, any other cut, a value
    that went through Python.
    `wants`: the reads and steps that missed it; without any, it is as if somebody read it at the end.
    """
    flow = facts.flow(tensor)
    ops = facts.trace.ops
    escaped = [ops[cut] for left, cut in flow.escapes if _comes_back(facts, ops[left])]
    left = forgotten(facts, flow, escaped)
    way = way_out(facts, tensor, wants or [GradEvent(facts.trace.time + 1, "read", tensor, None)])
    found = way.cut
    if found is not None and way.values and weight(found) > 2:
        if not way.others or (way.meant and found.kind == "op"):  # a number beside a loss of its own may be meant
            return _cut_off(flow, found)
    unread = unread_of(facts, left)
    if unread:  # not even printed: nothing but a loss is computed for that
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
    """Return a state_dict() whose values were differentiated in place of the parameters themselves."""
    ops, uses = facts.trace.ops, facts.uses
    for op in (ops[number] for number in uses.get(tensor, ())):
        if op.name == "state_dict" and op.internal:
            takers = [ops[number] for output in op.outputs for number in uses.get(output, ())]
            if any(taker.id in facts.ways.differentiated and not taker.writes for taker in takers):
                return op
    return None


def _cut_off(flow: Flow, op: OpRecord) -> Lost:
    return Lost(code_of_cut(op), place_of_cut(op), flow, cut=op)


class WayOut(NamedTuple):
    """`cut`: the op that took a tensor out of the graph on its way to a root, if any did."""

    cut: OpRecord | None = None
    values: bool = False  # the tensor's values go to the root, it does not only choose among others
    meant: bool = False  # that pass was for the same step
    others: bool = False  # some pass gave gradients to others that the step wanted


def way_out(facts: Facts, tensor: int, wants: list[GradEvent]) -> WayOut:
    """How a tensor left the graph on its way to a root, in the latest pass in which it did, one for that step if any."""
    for want in wants[:3]:
        records = facts.ways.asked_of(want, _step_before(facts, want))
        for record in sorted(records, key=lambda record: not _is_meant(facts, want, record)):
            cuts, values = facts.ways.cuts(tensor, record)
            if cuts:
                others = any(_gives(facts, want, other) for other in facts.trace.backwards)
                return WayOut(facts.ways.worst(cuts), values, _is_meant(facts, want, record), others)
    return WayOut()


def unread_of(facts: Facts, ends: list[int]) -> list[int]:
    """Those of some tensors of which no value goes to Python, not even to be printed."""
    ops = facts.trace.ops
    return [end for end in ends if not any(ops[use].kind == "leaves" for use in facts.uses.get(end, ()))]


def _step_before(facts: Facts, want: GradEvent) -> int:
    """When the optimizer that found nothing had stepped before; passes of before then were not for this step."""
    if want.optimizer is None:
        return -1
    steps = facts.trace.optimizers[want.optimizer].steps
    return max((step.time for step in steps if 0 <= step.end < want.time), default=-1)


def _is_meant(facts: Facts, want: GradEvent, record: BackwardRecord) -> bool:
    """Whether a backward gave gradients to others that the same step wanted, or to none that any step did."""
    return want.optimizer is None or facts.is_for(record, want.optimizer)


def _gives(facts: Facts, want: GradEvent, record: BackwardRecord) -> bool:
    """Whether a backward gave gradients to others that the same step wanted."""
    if want.optimizer is None:
        return True
    return not facts.trace.optimizers[want.optimizer].tensors.keys().isdisjoint(record.written)


def forgotten(facts: Facts, flow: Flow, escaped: list[OpRecord]) -> list[int]:
    """Scalars that were computed from the tensor and others, and whose values no backward() starts from or goes on to."""
    tensors = facts.trace.tensors
    ends = [end for end in flow.sinks if end != flow.start and tensors[end].size == 1 and flow.mixes(end)]
    if not ends:
        return []
    used = {number for cut in escaped for number in cut.inputs}
    for op in (facts.trace.ops[number] for number in facts.ways.differentiated):
        used.update((*op.inputs, *op.scalars))
    used.update(root for record in facts.trace.backwards if record.id in facts.differentiated for root in record.roots)
    return [end for end in ends if end not in used]


def is_forgotten(facts: Facts, tensor: int) -> bool:
    """Whether there is a loss of it beside those that autograd.grad() was called on."""
    roots = {root for record in facts.trace.backwards for root in record.roots}
    return any(end not in roots for end in unread_of(facts, forgotten(facts, facts.flow(tensor), [])))


def _comes_back(facts: Facts, left: OpRecord) -> bool:
    """Whether a value that went to Python may have come back: it was not just looked at, and something entered later."""
    if only_looked_at(left.place, facts.ran):
        return False
    came = [op for op in facts.trace.ops if op.time > left.time and not set(left.inputs).isdisjoint(op.scalars)]
    if not came and left.name in ("numpy", "__array__", "tolist"):
        came = [op for op in facts.trace.ops if op.kind == "enters" and op.time > left.time]
    return not came or any(op.id in facts.ways.differentiated for op in came)


def _undifferentiated(facts: Facts, flow: Flow, ends: list[int]) -> Lost:
    """Return the last end of a recorded path, a scalar if there is one."""
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
