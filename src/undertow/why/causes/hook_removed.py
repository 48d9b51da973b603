"""hook-removed: removed before the pass that would have fired it."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import BACKWARD_KINDS, overtaken, passes, reaching_outputs, runs
from undertow.why.finding import Finding, fact
from undertow.why.trace import HookRecord


class HookRemoved(Cause):
    """Its handle was removed, or its with block exited, too early."""

    code = "hook-removed"
    meaning = "its handle was removed before the pass that would have fired it"
    needs = "registrations and removals, module calls and backward passes"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.removed is None:
            return None
        if hook.in_graph:
            found = passes(facts, hook)
            later = found.after if not found.during else []
            then = "backward"
        else:
            ran = runs(facts, hook)
            if overtaken(facts, hook):
                return None  # registered in time for backward, but too late for forward
            during = ran.during
            if (
                hook.kind in BACKWARD_KINDS
                and reaching_outputs(facts, ran.after)
                and not reaching_outputs(facts, during)
            ):
                during = []  # a forward without a backward
            later = [call for call in ran.after if not call.direct] if not during else []  # type: ignore[misc]
            then = "the module"
        if not later:
            return None
        return Finding(
            self.code,
            hook.removed_at,
            hook_name(hook),
            f"The hook is removed here, before {then} runs, so it never fires.",
            [registered(hook), fact("it is removed", hook.removed_at), fact(f"{then} runs only now", later[0].place)],
            "run forward and backward inside the with block, or call handle.remove() after them",
            [later[0].place],
        )
