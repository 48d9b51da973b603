"""cleared: written, then zeroed or dropped before it was used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from undertow.why.causes.base import Cause, grad_of
from undertow.why.facts.clipping import early_clips
from undertow.why.facts.facts import Facts
from undertow.why.facts.wasted import wasted
from undertow.why.finding import Finding, fact
from undertow.why.grad_reads import expects_none, only_clears
from undertow.why.places import Place
from undertow.why.trace import GradEvent


class Cleared(Cause):
    """zero_grad() (or .grad = None, .grad.zero_()) runs between backward() and the use of the gradient."""

    code = "cleared"
    meaning = "written by backward, then zeroed or set to None before the step or read that needs it"
    needs = "every write, clear and read of .grad, and every optimizer step"

    def run(self, facts: Facts) -> Iterable[Finding]:
        readers = _silent_readers(facts)
        in_vain: set[int] = set()
        for one in facts.once(wasted):
            for tensor, (write, clear) in one.clears.items():
                in_vain.add(tensor)
                yield self._in_vain(facts, tensor, write, clear, one.step)
        for tensor, events in facts.grads.items():
            if tensor in in_vain:
                continue
            found = _never_stepped(events) or _read_too_late(events, readers) or _wiped(facts, tensor, events)
            if found is None or _is_used_at_once(facts, events, *found) or _is_of_another(facts, *found):
                continue
            if not _is_zeroed_by_hook(facts, found[0]):
                yield self._finding(facts, tensor, *found)

    def _finding(self, facts: Facts, tensor: int, write: GradEvent, clear: GradEvent, consumer: GradEvent) -> Finding:
        name = facts.name(tensor)
        gradient = grad_of(name)
        use = "the optimizer's step" if consumer.kind == "step" else "the read"
        return Finding(
            self.code,
            clear.place,
            name,
            f"backward() writes {gradient}, and this line clears it before {use} that needs it.",
            [
                fact(f"backward() writes {gradient}", write.place),
                fact("it is cleared", clear.place),
                fact(f"{use} finds no gradient", consumer.place),
            ],
            "clear gradients right before the next backward():  opt.zero_grad(); loss.backward(); opt.step()",
            tensor=tensor,
        )

    def _in_vain(self, facts: Facts, tensor: int, write: GradEvent, clear: GradEvent, step: Place | None) -> Finding:
        name = facts.name(tensor)
        gradient = grad_of(name)
        return Finding(
            self.code,
            clear.place,
            name,
            f"backward() writes {gradient}, and this line clears it each time before a step uses it: that loss trains "
            "nothing.",
            [
                fact(f"backward() writes {gradient}", write.place),
                fact("it is cleared", clear.place),
                fact("the step uses the gradients of other backward passes only", step),
            ],
            "clear gradients once, before the first backward() of each step",
            tensor=tensor,
        )


_Found = tuple[GradEvent, GradEvent, GradEvent]


def _is_used_at_once(
    facts: Facts, events: list[GradEvent], write: GradEvent, clear: GradEvent, consumer: GradEvent
) -> bool:
    """Whether a post-accumulate hook used the gradient, by a step or by hand, before clearing it."""
    if write.backward is None or clear.time > facts.trace.backwards[write.backward].end:
        return False
    steps = [event.time for event in events if event.kind == "step" and event.found]
    updates = [op.time for op in facts.updates.get(write.tensor, ())]
    return any(write.time < time < clear.time for time in (*steps, *updates))


def _is_zeroed_by_hook(facts: Facts, write: GradEvent) -> bool:
    """Whether the tensor's own post-accumulate hook zeroed the gradient."""
    hooks = [hook for hook in facts.trace.hooks if hook.kind == "post-accumulate" and hook.tensor == write.tensor]
    firings = [facts.trace.firings[number] for hook in hooks for number in hook.firings]
    return any(one.backward == write.backward and one.after and not any(one.after) for one in firings)


def _is_of_another(facts: Facts, write: GradEvent, clear: GradEvent, consumer: GradEvent) -> bool:
    """Whether the step uses a later pass that skipped the tensor: the cleared gradient came from a different loss."""
    if consumer.optimizer is None:
        return False
    later = [record for record in facts.trace.backwards if clear.time < record.time < consumer.time]
    return any(write.tensor not in record.written and facts.is_for(record, consumer.optimizer) for record in later)


def _is_empty(event: GradEvent) -> bool:
    return not event.found or event.peak == 0


def _never_stepped(events: list[GradEvent]) -> _Found | None:
    """Find tensors for which no step found a gradient, at least once because it was cleared."""
    steps: dict[int | None, list[GradEvent]] = defaultdict(list)
    for event in events:
        if event.kind == "step":
            steps[event.optimizer].append(event)
    in_vain = [event for own in steps.values() if all(map(_is_empty, own)) for event in own]
    return _cleared_before(events, set(map(id, in_vain))) if in_vain else None


def _cleared_before(events: list[GradEvent], consumers: set[int]) -> _Found | None:
    """Return the first use after a write and its clearing."""
    write = clear = None
    for event in events:
        if event.kind in ("write", "set"):
            write, clear = (event if event.peak != 0 else None), None  # the next use finds this one
        elif event.kind == "clear" and write is not None and clear is None:
            clear = event
        elif id(event) in consumers and write is not None and clear is not None:
            return write, clear, event
    return None


def _silent_readers(facts: Facts) -> set[tuple[str, int]]:
    """Return the lines that read .grad and never found a gradient."""
    reads: dict[tuple[str, int], bool] = {}
    early = facts.once(early_clips)
    for event in facts.trace.grads:
        if event.kind == "read" and event.place is not None and not expects_none(event.place):
            if event.place.key in early:
                continue
            if not only_clears(event.place):
                reads[event.place.key] = reads.get(event.place.key, False) or not _is_empty(event)
    return {key for key, found in reads.items() if not found}


def _read_too_late(events: list[GradEvent], readers: set[tuple[str, int]]) -> _Found | None:
    reads = {
        id(event) for event in events if event.kind == "read" and event.place is not None and event.place.key in readers
    }
    return _cleared_before(events, reads) if reads else None


def _wiped(facts: Facts, tensor: int, events: list[GradEvent]) -> _Found | None:
    """Find lost accumulation: most gradients of one backward call are cleared unused, the rest are stepped.

    A call is identified by its line and its callers': a helper may call backward() for several losses, and one of these
    may leave gradients on tensors that belong to another.
    """
    holders = facts.holders(tensor)
    spans = [(step.time, step.end) for holder in holders for step in holder.steps if step.closure]
    held = min((holder.time for holder in holders), default=0)
    used: Counter[_Way] = Counter()
    wiped: Counter[_Way] = Counter()
    pending: list[GradEvent] = []  # written, and not read
    seen: list[GradEvent] = []  # read: no longer lost, whatever happens to them
    first: dict[_Way, tuple[GradEvent, GradEvent]] = {}
    last_step: GradEvent | None = None
    for event in events:
        if event.kind == "write" and event.place is not None and event.time > held:
            if not any(start < event.time < end for start, end in spans):
                pending.append(event)
        elif event.kind == "step":
            last_step = event if pending or seen else last_step
            used.update(map(_way, [*pending, *seen]))
            pending, seen = [], []
        elif event.kind == "clear":
            for write in pending:
                wiped[_way(write)] += 1
                first.setdefault(_way(write), (write, event))
            pending, seen = [], []
        elif event.kind == "read":
            seen += pending
            pending = []
    for way, lost in wiped.items():
        if lost >= 2 and used[way] and lost >= used[way] and last_step is not None:
            return *first[way], last_step
    return None


_Way = tuple[tuple[str, int], ...]


def _way(write: GradEvent) -> _Way:
    """Return the line of a backward call and its callers' lines."""
    return () if write.place is None else tuple([place.key for place in write.place.chain()])
