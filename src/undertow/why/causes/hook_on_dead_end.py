"""hook-on-dead-end: the graph of nothing that is differentiated leads to it."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.causes.cuts import words_of_cut
from undertow.why.facts.facts import Facts
from undertow.why.facts.graph_cuts import place_of_cut
from undertow.why.facts.lost import graph_exit
from undertow.why.facts.passes import BACKWARD_KINDS, passes, reaching_outputs, wired
from undertow.why.finding import Finding, fact
from undertow.why.places import Place
from undertow.why.trace import GradEvent, HookRecord, OpRecord


class HookOnDeadEnd(Cause):
    """The hooked tensor is not an ancestor of any differentiated root: it is cut off, or a side result."""

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
            tensors, made, what = _made(facts, hook)
        elif hook.kind in BACKWARD_KINDS:
            calls = wired(facts, hook)
            if not calls or not any(any(call.outputs_require_grad) for call in calls) or reaching_outputs(facts, calls):
                return None
            tensors = [output for call in calls for output in call.outputs]
            made, what = calls[-1].place, f"the output of {hook.expression or 'the module'}"
        else:
            return None
        cut = _cut(facts, tensors)
        if cut is not None:
            did, cure = words_of_cut(cut)
            return Finding(
                self.code,
                place_of_cut(cut),
                hook_name(hook),
                f"The values of {what} go into the loss, its graph does not: {did}. So no gradient reaches the hook.",
                [fact(f"{what} is made", made), registered(hook), fact(f"the graph ends here: {did}", cut.place)],
                cure,
                [cut.place, hook.place],
            )
        return Finding(
            self.code,
            hook.place,
            hook_name(hook),
            f"{what} is not part of any loss that is differentiated, so no gradient ever reaches the hook.",
            [fact(f"{what} is made", made), registered(hook), fact("no backward() has a root that depends on it")],
            "put the hook on the tensor that the loss is computed from",
            [made],
        )


def _made(facts: Facts, hook: HookRecord) -> tuple[list[int], Place | None, str]:
    """Return (the hooked tensors, where the hooked object was made, what to call it)."""
    if hook.tensor is not None:
        return [hook.tensor], facts.made_at(hook.tensor), hook.expression or facts.name(hook.tensor)
    op = None if hook.node is None else facts.trace.nodes[hook.node].op
    if op is None:
        return [], None, hook.expression or "the node"
    return list(facts.trace.ops[op].outputs), facts.trace.ops[op].place, hook.expression or "the node"


def _cut(facts: Facts, tensors: list[int]) -> OpRecord | None:
    """Return the op that takes the values of hooked tensors out of the graph, on their way to a differentiated root.

    A state that is detached after its step's backward pass is cut off on purpose.
    """
    end = facts.trace.time + 1
    for tensor in tensors:
        cut = graph_exit(facts, tensor, [GradEvent(end, "read", tensor, None)]).cut
        made = facts.trace.tensors[tensor].time
        if cut is not None and not any(made < record.time < cut.time for record in facts.trace.backwards):
            return cut
    return None
