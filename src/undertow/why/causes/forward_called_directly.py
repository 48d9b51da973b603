"""forward-called-directly: module.forward(x) skips the hooks."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import runs
from undertow.why.finding import Finding, fact
from undertow.why.trace import HookRecord


class ForwardCalledDirectly(Cause):
    """`__call__` fires hooks, `forward` alone does not."""

    code = "forward-called-directly"
    meaning = "module.forward(x) skips __call__ and its hooks"
    needs = "every run of a module's forward, through __call__ or past it"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.in_graph:
            return None
        during = runs(facts, hook).during
        direct = [call for call in during if call.direct]
        if not direct or len(direct) < len(during):
            return None
        what = (not hook.everywhere and hook.expression) or "module"
        return Finding(
            self.code,
            direct[0].place,
            hook_name(hook),
            f"{what} is run through its forward here, which skips __call__ and with it every hook.",
            [registered(hook), fact("forward is called directly", direct[0].place)],
            f"{what}(...)  # not {what}.forward(...)",
        )
