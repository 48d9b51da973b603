"""Backward passes in vain: no step, no read and no hook uses a gradient that they wrote."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from undertow.why.facts.facts import Facts
from undertow.why.places import Place
from undertow.why.trace import BackwardRecord, GradEvent, OptimizerRecord

_USES = frozenset({"step", "read", "edit"})


class Wasted(NamedTuple):
    """A line with a backward pass that is in vain each time, while the training goes on."""

    record: BackwardRecord  # the first of its passes
    optimizer: OptimizerRecord  # the one that steps next
    step: Place | None
    clears: dict[int, tuple[GradEvent, GradEvent]]  # tensor -> (the write, the clear before that step)


def wasted(facts: Facts) -> list[Wasted]:
    """Return the lines whose backward passes are all in vain, with a step of an optimizer after each."""
    lines: dict[object, list[BackwardRecord]] = defaultdict(list)
    for record in facts.trace.backwards:
        if record.kind == "backward" and record.place is not None:
            lines[tuple([place.key for place in record.place.chain()])].append(record)
    found = []
    for records in lines.values():
        vain = records if len(records) > 1 and all(_is_in_vain(facts, record) for record in records) else []
        followed = [facts.stepped(one.end, other.time) for one, other in pairwise(vain)]
        if vain and all(followed) and (one := _first_step(facts, vain[0])) is not None:
            found.append(one)
    return found


def _is_in_vain(facts: Facts, record: BackwardRecord) -> bool:
    """Whether nothing uses the gradients of a pass before they are cleared."""
    if record.error is not None or record.firing is not None or not record.written or _in_closure(facts, record):
        return False
    hooks, trace = facts.trace.hooks, facts.trace
    if any(one.backward == record.id and hooks[one.hook].user for one in trace.firings):
        return False
    end = trace.time
    for tensor in record.written:
        for event in facts.grads_and_updates(tensor):
            if event.time > record.end and event.kind in _USES:
                return False
            if event.time > record.end and event.kind in ("clear", "set"):
                end = min(end, event.time)
                break
    reads = any(event.kind == "read" and record.end < event.time < end for event in trace.grads)  # of retain_grad()
    return not reads and not any(record.end < event.time < end for event in trace.scalings)


def _in_closure(facts: Facts, record: BackwardRecord) -> bool:
    steps = [step for optimizer in facts.trace.optimizers for step in optimizer.steps if step.closure]
    return any(step.time < record.time < step.end for step in steps)


def _first_step(facts: Facts, record: BackwardRecord) -> Wasted | None:
    """Return the step that comes after a pass in vain, and what was cleared in between."""
    steps = [(step.time, step, one) for one in facts.trace.optimizers for step in one.steps if step.time > record.end]
    if not steps:
        return None
    time, step, optimizer = min(steps, key=lambda found: found[0])
    clears = {}
    for tensor in optimizer.tensors.keys() & record.written.keys():
        events = [event for event in facts.grads[tensor] if record.time < event.time < time]
        write = next((event for event in events if event.kind == "write" and event.backward == record.id), None)
        clear = next((event for event in events if event.kind == "clear"), None)
        if write is not None and clear is not None:
            clears[tensor] = write, clear
    return Wasted(record, optimizer, step.place, clears)
