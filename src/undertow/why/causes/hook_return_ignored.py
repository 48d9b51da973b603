"""hook-return-ignored: a hook computes a new value and loses it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.places import Place
from undertow.why.statements import hands_back, is_bare
from undertow.why.trace import FiringRecord, HookRecord, OpRecord


class HookReturnIgnored(Cause):
    """It returned nothing and wrote nothing back, so its result has no effect."""

    code = "hook-return-ignored"
    meaning = "the hook computed a new value, but returned nothing and wrote nothing back"
    needs = "the ops inside every hook, what it returned, and what outlived it"

    def run(self, facts: Facts) -> Iterable[Finding]:
        inside: dict[int, list[OpRecord]] = defaultdict(list)
        for op in facts.trace.ops:
            if op.firing is not None:
                inside[op.firing].append(op)
        for hook in facts.hooks:
            firings = [facts.trace.firings[number] for number in hook.firings if hook.kind != "multi-grad"]
            if not firings or any(firing.answer != "none" or firing.changed or firing.error for firing in firings):
                continue
            lost = [_lost(facts, firing, inside[firing.id]) for firing in firings]
            found = lost[0]
            if found is not None and all(op is not None for op in lost):
                yield self._finding(hook, found)

    def _finding(self, hook: HookRecord, op: OpRecord) -> Finding:
        place = _where_lost(op)
        return Finding(
            self.code,
            place,
            hook_name(hook),
            f"{hook.name} computes a new value with {op.shown} and returns nothing: the result is lost when it ends.",
            [registered(hook), fact(f"{op.shown} makes the value that is lost", op.place)],
            "return the new value from the hook",
            [hook.defined],
        )


def _lost(facts: Facts, firing: FiringRecord, ops: list[OpRecord]) -> OpRecord | None:
    """Return the last op whose result looks like a replacement, is not used and is freed with the hook."""
    tensors = facts.trace.tensors
    derived = set(firing.given)  # and its other arguments that were not seen before: grad_output
    derived.update(n for op in ops for n in op.inputs if tensors[n].maker is None and tensors[n].time > firing.time)
    made: dict[int, OpRecord] = {}
    used: set[int] = set()
    for op in ops:
        if not derived.intersection(op.inputs):
            continue
        for number in op.inputs:
            if number not in op.outputs:
                used.add(number)
        for number in op.outputs:
            derived.add(number)
            if op.kind in ("op", "cut", "function"):
                made[number] = op
    for number, op in reversed(made.items()):
        known = tensors[number]
        dies = known.died is not None and known.died <= firing.end
        if number in firing.given or not dies or not known.floating or (number in used and not _is_dropped(op)):
            continue
        if known.shape in firing.shapes and op.name not in ("detach", "clone", "data.get"):
            return op
    return None


def _where_lost(op: OpRecord) -> Place | None:
    """Return the statement that discards a result: if helper functions return it, the last one that received it."""
    place = op.place
    while place is not None and place.outer is not None and hands_back(place):
        place = place.outer
    return place


def _is_dropped(op: OpRecord) -> bool:
    """Whether a helper function returns a result to a statement that ignores it."""
    place = _where_lost(op)
    return place is not None and place is not op.place and is_bare(place)
