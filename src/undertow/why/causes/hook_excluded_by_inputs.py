"""hook-excluded-by-inputs: backward(inputs=...) or autograd.grad does not compute this gradient."""

from __future__ import annotations

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.facts import Facts
from undertow.why.facts.passes import BACKWARD_KINDS, passes, reaching_outputs, wired
from undertow.why.finding import Finding, fact
from undertow.why.trace import HookRecord


class HookExcludedByInputs(Cause):
    """With inputs=, only the gradients on the path to these are computed."""

    code = "hook-excluded-by-inputs"
    meaning = "backward(inputs=...) or autograd.grad(..., inputs) does not compute the hooked gradient"
    needs = "the inputs of every backward pass, and what its roots reach"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.in_graph:
            during = passes(facts, hook).during
        elif hook.kind in BACKWARD_KINDS:
            during = [record for record in reaching_outputs(facts, wired(facts, hook)) if record.time > hook.time]
        else:
            return None
        if not during or any(record.inputs is None or record.error is not None for record in during):
            return None
        call = during[-1]
        given = ", ".join(facts.name(number) for number in (call.inputs or ())[:4])
        name = "autograd.grad" if call.kind == "grad" else "backward"
        return Finding(
            self.code,
            call.place,
            hook_name(hook),
            f"{name} computes the gradients of {given} only, so the hooked gradient is not computed.",
            [registered(hook), fact(f"{name} with inputs {given}", call.place)],
            "loss.backward() without inputs=, or add the hooked tensor to them",
        )
