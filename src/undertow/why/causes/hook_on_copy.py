"""hook-on-copy: the hook is on the original, and its deep copy runs."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import displaced, passes, runs
from undertow.why.finding import Finding, fact
from undertow.why.places import Place
from undertow.why.trace import HookRecord


class HookOnCopy(Cause):
    """deepcopy does not copy hooks of tensors, and copies hook objects into new ones."""

    code = "hook-on-copy"
    meaning = "the hook is on the original and a deep copy runs, or the reverse"
    needs = "every copy.deepcopy, and which of the two runs"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        place = self._tensor(facts, hook) if hook.in_graph else self._module(facts, hook)
        if place is None:
            return None
        return Finding(
            self.code,
            place,
            hook_name(hook),
            "deepcopy made a copy here: the hook is on one of the two, and the other one runs.",
            [registered(hook), fact("the deep copy", place)],
            "register the hook on the copy that is used, after the deepcopy",
            [hook.place],
        )

    def _tensor(self, facts: Facts, hook: HookRecord) -> Place | None:
        found = passes(facts, hook)
        if hook.tensor is None or found.during or found.before or found.after:
            return None
        for other, place, time in facts.copies.get(hook.tensor, ()):
            if any(record.time > max(time, hook.time) for record in facts.reaching(other)):
                return place
        return None

    def _module(self, facts: Facts, hook: HookRecord) -> Place | None:
        if hook.module is None or runs(facts, hook).during:
            return None
        successor = displaced(facts, hook)
        for other, place, time in facts.module_copies.get(hook.module, ()):
            if successor is not None and other not in facts.descendants(successor.child):
                continue  # neither runs instead of the other
            if any(call.time > max(time, hook.time) for call in facts.calls.get(other, ())):
                return place
        return None
