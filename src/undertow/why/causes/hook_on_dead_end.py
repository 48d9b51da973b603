"""hook-on-dead-end: nothing that is differentiated depends on it."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import BACKWARD_KINDS, passes, reaching_outputs, wired
from undertow.why.finding import Finding, fact
from undertow.why.places import Place
from undertow.why.trace import HookRecord


class HookOnDeadEnd(Cause):
    """The hooked tensor is not an ancestor of any differentiated root: a view made for the hook, a side result."""

    code = "hook-on-dead-end"
    meaning = "on a tensor that is no ancestor of any differentiated root"
    needs = "the graph of every forward pass, and what each backward reached"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.error is not None:
            return None
        if hook.in_graph:
            found = passes(facts, hook)
            if found.before or found.during or found.after:
                return None
            made, what = _made(facts, hook)
        elif hook.kind in BACKWARD_KINDS:
            calls = wired(facts, hook)
            if not calls or not any(any(call.outputs_require_grad) for call in calls) or reaching_outputs(facts, calls):
                return None
            made, what = calls[-1].place, f"the output of {hook.expression or 'the module'}"
        else:
            return None
        return Finding(
            self.code,
            hook.place,
            hook_name(hook),
            f"{what} is not part of any loss that is differentiated, so no gradient ever reaches the hook.",
            [fact(f"{what} is made", made), registered(hook), fact("no backward() has a root that depends on it")],
            "put the hook on the tensor that the loss is computed from",
            [made],
        )


def _made(facts: Facts, hook: HookRecord) -> tuple[Place | None, str]:
    """Return (where the hooked object was made, what to call it)."""
    if hook.tensor is not None:
        return facts.made_at(hook.tensor), hook.expression or facts.name(hook.tensor)
    op = None if hook.node is None else facts.trace.nodes[hook.node].op
    return None if op is None else facts.trace.ops[op].place, hook.expression or "the node"
