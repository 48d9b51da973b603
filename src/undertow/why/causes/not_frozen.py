"""not-frozen: an attribute that looks like freezing, but is none."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.statements import attribute_set_to
from undertow.why.trace import FalseFlag, GradEvent


class NotFrozen(Cause):
    """`p.require_grad = False` and `module.requires_grad = False` set a plain attribute."""

    code = "not-frozen"
    meaning = "an attribute that looks like freezing is set, and the optimizer trains the parameter all the same"
    needs = "attributes of parameters and modules with names like requires_grad"

    def run(self, facts: Facts) -> Iterable[Finding]:
        for flag in facts.trace.false_flags:
            tensors = [flag.tensor] if flag.tensor is not None else facts.parameters_in(flag.module)
            step = next((step for tensor in sorted(tensors) if (step := _trained(facts, tensor))), None)
            if not flag.value and step is not None:
                yield self._finding(facts, flag, step)

    def _finding(self, facts: Facts, flag: FalseFlag, step: GradEvent) -> Finding:
        trace = facts.trace
        if flag.tensor is not None:
            name = facts.name(flag.tensor)
            what, cure = f"a tensor's flag is requires_grad, and {flag.name} is a plain attribute of {name}", (
                f"{name}.requires_grad = False"
            )  # fmt: skip
        else:
            module = trace.modules[flag.module or 0]
            name = module.names[0] if module.names else module.type
            what, cure = f"{name} is a module, and its {flag.name} is a plain attribute: its parameters do not change", (
                f"{name}.requires_grad_(False)"
            )  # fmt: skip
        place = attribute_set_to(facts.files, flag.name)
        return Finding(
            self.code,
            place,
            name,
            f"This does not freeze {name}: {what}.",
            [
                fact(f"{flag.name} is set", place),
                fact(f"the optimizer steps with the gradient of {facts.name(step.tensor)}", step.place),
            ],
            cure,
            tensor=flag.tensor,
        )


def _trained(facts: Facts, tensor: int) -> GradEvent | None:
    """Return a step that used a gradient of a tensor."""
    return next((event for event in facts.grads.get(tensor, ()) if event.kind == "step" and event.found), None)
