"""Which gradients the program shows that it wanted, and did not get."""

from __future__ import annotations

from dataclasses import dataclass

from undertow.why.facts.facts import Facts
from undertow.why.facts.lost import is_forgotten, way_out
from undertow.why.source import expects_none, is_guard, knows_of_freezing
from undertow.why.trace import GradEvent


@dataclass(slots=True)
class Miss:
    """A gradient that was wanted and missed.

    `kind`: "none" (never written), "zero" (written, and all zeros every time). `wants`: the reads and steps that asked.
    """

    tensor: int
    kind: str
    wants: list[GradEvent]

    @property
    def read(self) -> GradEvent | None:
        """The first read, if any."""
        return next((event for event in self.wants if event.kind == "read"), None)


def misses(facts: Facts) -> list[Miss]:
    """Every missed gradient, in the order in which they were asked for."""
    found = []
    # What a post-accumulate hook took away at once was there, and used.
    taken = {tensor for record in facts.trace.backwards if record.kind == "backward" for tensor in record.written}
    for tensor, events in facts.grads.items():
        wants = [event for event in events if _is_want(event)]
        writes = [event for event in events if event.kind in ("write", "set")]
        if not wants or (not writes and tensor in taken):
            continue
        if not writes:
            empty = [event for event in wants if not event.found]
            if all(event.kind == "step" for event in empty) and _is_put_aside(facts, tensor):
                continue  # only the optimizer still knows it
            if empty and not _only_a_guard(facts, tensor, empty) and not _is_behind_a_derivative(facts, tensor, empty):
                found.append(Miss(tensor, "none", empty))
        elif all(event.peak == 0 for event in writes):
            found.append(Miss(tensor, "zero", wants))
        elif passed_by := _passed_by(facts, tensor, wants):
            found.append(Miss(tensor, "none", passed_by))
    return found


def _passed_by(facts: Facts, tensor: int, wants: list[GradEvent]) -> list[GradEvent]:
    """Return the steps, if none ever found a gradient, though passes for other parameters of that optimizer ran
    before each.

    What other losses leave in a tensor's .grad on their way, and is cleared again, was not for these steps.
    """
    steps = [event for event in wants if event.kind == "step" and event.optimizer is not None]
    if not steps or len(steps) < len(wants) or any(event.found for event in steps):
        return []
    backwards = [record for record in facts.trace.backwards if record.kind == "backward"]
    clears = [event.time for event in facts.grads[tensor] if event.kind == "clear" and event.found]
    for event in steps:
        latest = next((record for record in reversed(backwards) if record.time < event.time), None)
        if latest is None or tensor in latest.written or not facts.is_for(latest, event.optimizer or 0):
            return []
        if any(latest.time < time < event.time for time in clears):
            return []  # it was there until then
    return steps


def _is_want(event: GradEvent) -> bool:
    if event.kind == "step":
        return True
    return event.kind == "read" and not expects_none(event.place)


def _is_put_aside(facts: Facts, tensor: int) -> bool:
    """Whether the program trains another tensor in its place: one that replaced it, or its deep copy."""
    if tensor in facts.replaced:
        return True
    twins = [twin for twin, _, _ in facts.copies.get(tensor, ())]
    twins += [other for other in facts.made_alike(tensor, any_shape=True) if other > tensor]
    return any(not facts.holders(twin) and any(e.kind == "write" for e in facts.grads.get(twin, ())) for twin in twins)


def _is_behind_a_derivative(facts: Facts, tensor: int, wants: list[GradEvent]) -> bool:
    """Whether it goes only into what is differentiated by autograd.grad() first, and that derivative does not depend on
    it: the last bias of a network of which only the slope is trained."""
    passes = [record for record in facts.reaching(tensor) if record.time < wants[-1].time]
    derived = {
        op.inputs[0] for number in facts.ways.differentiated
        if (op := facts.trace.ops[number]).kind == "grad" and any(op.gave) and op.inputs
    }  # fmt: skip
    if any(record.kind != "grad" or tensor in (record.inputs or ()) for record in passes):
        return False
    if derived.isdisjoint([root for record in passes for root in record.roots]):
        return False
    return way_out(facts, tensor, wants).cut is None and not is_forgotten(facts, tensor)


def _only_a_guard(facts: Facts, tensor: int, wants: list[GradEvent]) -> bool:
    """`if p.grad is not None` over a frozen or plain tensor asks whether there is one, and takes no for an answer; so
    does what looks at `requires_grad` first."""
    record = facts.trace.tensors[tensor]
    return (
        record.leaf
        and not facts.asks(tensor)
        and all(event.kind == "read" and (is_guard(event.place) or knows_of_freezing(event.place)) for event in wants)
    )
