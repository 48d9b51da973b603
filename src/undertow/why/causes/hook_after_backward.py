"""hook-after-backward: registered after the pass."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import displaced, overtaken, passes, runs
from undertow.why.finding import Finding, fact
from undertow.why.trace import HookRecord


class HookAfterBackward(Cause):
    """A tensor hook after backward ran, a module hook after the module's forward ran."""

    code = "hook-after-backward"
    meaning = "registered too late for the pass it was meant for"
    needs = "registrations, module calls and backward passes, in order"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.in_graph:
            found = passes(facts, hook)
            if not found.before or found.during or found.after:
                return None
            missed, what = found.before[-1].place, "backward has already run"
        else:
            ran = runs(facts, hook)
            called = overtaken(facts, hook)
            if not called and not ran.after and not displaced(facts, hook):
                called = [call for call in ran.before if not call.direct]
            if not called or any(any(call.outputs_require_grad) for call in ran.during):
                return None
            missed, what = called[-1].place, "the module's forward has already run, and hooks are wired in there"
        return Finding(
            self.code,
            hook.place,
            hook_name(hook),
            f"The hook is registered too late: {what}.",
            [fact("the pass that it was meant for", missed), registered(hook)],
            "register the hook before the forward pass",
            [missed],
        )
