"""Find missing gradients: those that the program reads or steps with, and that are None or zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from undertow.why.facts.facts import Facts
from undertow.why.facts.intent import is_frozen_on_purpose
from undertow.why.facts.lost import graph_exit, is_forgotten
from undertow.why.facts.wasted import wasted
from undertow.why.grad_reads import checks_requires_grad, expects_none, is_guard
from undertow.why.places import Place
from undertow.why.trace import GradEvent


@dataclass(slots=True)
class Miss:
    """A gradient that the program uses and that is missing.

    `kind`: "none" (never written) or "zero" (written, and all zeros every time). `consumers`: the reads and optimizer steps
    that use it.
    """

    tensor: int
    kind: str
    consumers: list[GradEvent]

    @property
    def read(self) -> GradEvent | None:
        """The first read, if any."""
        return next((event for event in self.consumers if event.kind == "read"), None)


def misses(facts: Facts) -> list[Miss]:
    """Return every missing gradient, in the order of their first events."""
    found = []
    # A gradient that a post-accumulate hook clears at once was there, and was used.
    taken = {tensor for record in facts.trace.backwards if record.kind == "backward" for tensor in record.written}
    for tensor, events in facts.grads.items():
        consumers = [event for event in events if _is_consumer(event)]
        writes = [event for event in events if event.kind in ("write", "set")]
        if not consumers or (not writes and tensor in taken):
            continue
        if not writes:
            empty = [event for event in consumers if not event.found]
            if all(event.kind == "step" for event in empty) and _is_put_aside(facts, tensor):
                continue  # only the optimizer still holds it
            if empty and is_frozen_on_purpose(facts, tensor, empty):
                continue
            if empty and not _only_a_guard(facts, tensor, empty) and not _only_feeds_a_derivative(facts, tensor, empty):
                found.append(Miss(tensor, "none", empty))
        elif all(event.peak == 0 for event in writes):
            found.append(Miss(tensor, "zero", consumers))
        elif passed_by := _passed_by(facts, tensor, consumers):
            found.append(Miss(tensor, "none", passed_by))
    return found


class CopiedAway(NamedTuple):
    """A deep copy whose gradient was computed in place of the original's."""

    place: Place | None
    differentiated: Place | None


def copy_instead(facts: Facts, miss: Miss) -> CopiedAway | None:
    """Return the deep copy that got the gradient, which nothing used, if the original was only copied."""
    event = miss.consumers[0]
    for twin, place, time in reversed(facts.copies.get(miss.tensor, ())):
        if facts.trace.tensors[twin].copied_from != miss.tensor:
            continue
        asked = [one for one in facts.trace.backwards if one.time == event.time and twin in one.leaves]
        if asked:
            return CopiedAway(place, asked[0].place)
        events = [one for one in facts.grads.get(twin, ()) if time < one.time < event.time]
        if events and events[-1].kind == "write" and (event.kind == "read" or len(facts.copies[miss.tensor]) > 1):
            return CopiedAway(place, events[-1].place)
    return None


def _passed_by(facts: Facts, tensor: int, consumers: list[GradEvent]) -> list[GradEvent]:
    """Return all steps if none found a gradient although the backward pass before each served their optimizer.

    Gradients that other losses wrote and that were cleared again do not count: they were not for these steps.
    """
    steps = [event for event in consumers if event.kind == "step" and event.optimizer is not None]
    if not steps or len(steps) < len(consumers) or any(event.found for event in steps):
        return []
    if any(tensor in one.clears for one in facts.once(wasted)):
        return []  # it existed until it was cleared
    backwards = [record for record in facts.trace.backwards if record.kind == "backward"]
    clears = [event.time for event in facts.grads[tensor] if event.kind == "clear" and event.found]
    for event in steps:
        latest = next((record for record in reversed(backwards) if record.time < event.time), None)
        if latest is None or tensor in latest.written or not facts.is_for(latest, event.optimizer or 0):
            return []
        if any(latest.time < time < event.time for time in clears):
            return []  # it existed until it was cleared
    return steps


def _is_consumer(event: GradEvent) -> bool:
    if event.kind == "step":
        return True
    return event.kind == "read" and not expects_none(event.place)


def _is_put_aside(facts: Facts, tensor: int) -> bool:
    """Whether the program trains a different tensor instead: a replacement, or a deep copy."""
    if tensor in facts.replaced:
        return True
    twins = [twin for twin, _, _ in facts.copies.get(tensor, ())]
    twins += [other for other in facts.made_alike(tensor, any_shape=True) if other > tensor]
    return any(not facts.holders(twin) and any(e.kind == "write" for e in facts.grads.get(twin, ())) for twin in twins)


def _only_feeds_a_derivative(facts: Facts, tensor: int, consumers: list[GradEvent]) -> bool:
    """Whether a tensor feeds only what autograd.grad() differentiates, and that derivative does not depend on it.

    An example is the last bias of a network whose slope alone is trained.
    """
    passes = [record for record in facts.reaching(tensor) if record.time < consumers[-1].time]
    derived = {
        op.inputs[0] for number in facts.paths.differentiated
        if (op := facts.trace.ops[number]).kind == "grad" and any(op.outputs_require_grad) and op.inputs
    }  # fmt: skip
    if any(record.kind != "grad" or tensor in (record.inputs or ()) for record in passes):
        return False
    if derived.isdisjoint([root for record in passes for root in record.roots]):
        return False
    return graph_exit(facts, tensor, consumers).cut is None and not is_forgotten(facts, tensor)


def _only_a_guard(facts: Facts, tensor: int, consumers: list[GradEvent]) -> bool:
    """Whether every read of a frozen or plain leaf's gradient allows for None.

    Such a read is inside `if p.grad is not None`, or after a test of `requires_grad`.
    """
    record = facts.trace.tensors[tensor]
    return (
        record.leaf
        and not facts.requires_grad(tensor)
        and all(
            event.kind == "read" and (is_guard(event.place) or checks_requires_grad(event.place)) for event in consumers
        )
    )
