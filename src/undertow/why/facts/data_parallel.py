"""What DistributedDataParallel did with gradients: which it averaged, and which a step used without that."""

from __future__ import annotations

from dataclasses import dataclass, field

from undertow.why.facts.facts import Facts
from undertow.why.places import Place
from undertow.why.trace import BackwardRecord, CollectiveRecord, GradEvent, ParallelForward, ParallelRecord, StepRecord


@dataclass(slots=True)
class Local:
    """A gradient that stayed on its rank, and the reason."""

    why: str  # "inner", "again", "twice" (in one pass) or "no_sync"
    place: Place | None  # the call of the inner model, the second backward, or the no_sync block
    backward: BackwardRecord
    forward: ParallelForward | None


@dataclass(slots=True)
class Incomplete:
    """An iteration in which parameters got no gradient, so that no gradient was averaged."""

    forward: ParallelForward
    backward: BackwardRecord
    missing: list[int]


@dataclass(slots=True)
class Iterations:
    """What happened to one DistributedDataParallel."""

    record: ParallelRecord
    incomplete: list[Incomplete] = field(default_factory=list)
    stepped: list[tuple[StepRecord, int, Local]] = field(default_factory=list)  # (step, parameter, its local gradient)


def iterations(facts: Facts) -> list[Iterations]:
    """Replay what each DistributedDataParallel did, from the records of forwards, backwards and steps."""
    return [_replay(facts, record) for record in facts.trace.parallel]


def _replay(facts: Facts, record: ParallelRecord) -> Iterations:
    trace, found = facts.trace, Iterations(record)
    own = set(record.parameters.values())
    held = {optimizer.id: own.intersection(optimizer.tensors) for optimizer in trace.optimizers}
    events: list[tuple[int, object, object]] = [(forward.time, forward, None) for forward in record.forwards]
    events += [(one.time, one, None) for one in trace.backwards if one.kind == "backward" and one.time > record.time]
    events += [(step.time, step, one.id) for one in trace.optimizers for step in one.steps if held[one.id]]
    events += [(event.time, event, None) for event in trace.grads if event.kind == "clear" and event.tensor in own]
    events += [(one.time, one, None) for one in trace.collectives if is_of_gradients(facts, one, own)]
    ready: ParallelForward | None = None
    last: ParallelForward | None = None
    got: set[int] = set()
    passed: BackwardRecord | None = None
    local: dict[int, Local] = {}
    for _, event, optimizer in sorted(events, key=lambda one: one[0]):
        if isinstance(event, ParallelForward):
            if event.grad_mode:
                if ready is not None and passed is not None and got != own:
                    found.incomplete.append(Incomplete(ready, passed, sorted(own - got)))
                ready, last, got, passed = (event if event.synced else None), event, set(), None
        elif isinstance(event, BackwardRecord):
            written = own.intersection(event.written)
            if ready is not None and written:
                got, passed = got | written, event
                if got == own or record.finds_unused or record.static:
                    ready, local = None, {}
            else:
                local |= dict.fromkeys(written, _local(facts, record, event, last))
        elif isinstance(event, GradEvent):
            local.pop(event.tensor, None)
        elif isinstance(event, CollectiveRecord):
            local = {}
        elif isinstance(event, StepRecord) and isinstance(optimizer, int):
            if ready is not None and passed is not None and passed.end >= 0 and passed.end < event.time:
                found.incomplete.append(Incomplete(ready, passed, sorted(own - got)))
            found.stepped += [(event, number, local[number]) for number in sorted(held[optimizer]) if number in local]
    return found


def _local(facts: Facts, record: ParallelRecord, backward: BackwardRecord, last: ParallelForward | None) -> Local:
    """Say why a backward pass left gradients on this rank."""
    since = record.time if last is None else last.time
    inside = {call.id for call in facts.calls.get(record.module, ())}
    for call in facts.calls.get(record.inner, ()):
        if since < call.time < backward.time and call.parent not in inside and call.grad_mode:
            return Local("inner", call.place, backward, last)
    if backward.parent is not None:
        outer = facts.trace.backwards[backward.parent]
        return Local("twice", outer.place, outer, last)
    if last is not None and not last.synced:
        return Local("no_sync", last.block, backward, last)
    return Local("again", backward.place, backward, last)


def is_of_gradients(facts: Facts, collective: CollectiveRecord, parameters: set[int]) -> bool:
    """Whether a collective reduces gradients, or tensors of their size: the program averages them itself."""
    if "reduce" not in collective.op:
        return False
    tensors = facts.trace.tensors
    smallest = min((tensors[number].size for number in parameters if tensors[number].size > 1), default=2)
    return any(
        tensors[number].gradient_of is not None or tensors[number].size >= smallest for number in collective.tensors
    )


def averages_parameters(facts: Facts, record: ParallelRecord) -> bool:
    """Whether the program averages or copies parameters between ranks itself, as local SGD does."""
    tensors = facts.trace.tensors
    memories = {tensors[number].memory for number in record.parameters.values()}
    return any(
        tensors[number].memory in memories
        for one in facts.trace.collectives if one.time > record.time and one.op.startswith(("all_reduce", "broadcast"))
        for number in one.tensors
    )  # fmt: skip
