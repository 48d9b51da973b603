"""excluded-by-inputs: backward(inputs=...) left it out."""

from __future__ import annotations

from undertow.why.causes.base import Cause, consumer_fact
from undertow.why.facts.facts import Facts
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Finding, fact


class ExcludedByInputs(Cause):
    """backward(inputs=...) writes the gradients of those inputs only."""

    code = "excluded-by-inputs"
    meaning = "an ancestor of the root, but not in backward(inputs=...)"
    needs = "the inputs= of every backward(), and what its roots reach"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        if miss.kind != "none":
            return None
        calls = [record for record in facts.reaching(miss.tensor) if record.kind == "backward"]
        if not calls or any(record.inputs is None or miss.tensor in record.inputs for record in calls):
            return None
        name, call = facts.name(miss.tensor), calls[-1]
        given = ", ".join(facts.name(number) for number in (call.inputs or ())[:4])
        return Finding(
            self.code,
            call.place,
            name,
            f"backward(inputs=[{given}]) writes the gradients of these only; the root depends on {name}, too.",
            [fact(f"backward is called with inputs=[{given}]", call.place), consumer_fact(facts, miss)],
            f"loss.backward()  # or add {name} to inputs=",
            tensor=miss.tensor,
        )
