"""accumulated-grad: a backward adds to a gradient that was already used."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause, grad_of
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.statements import uncalled
from undertow.why.trace import GradEvent


class AccumulatedGrad(Cause):
    """No zero_grad between a step and the next backward: old gradients are added to new ones."""

    code = "accumulated-grad"
    meaning = "a backward adds to a gradient that a step or an update by hand has already used"
    needs = "every write, clear and use of .grad, and updates by hand"

    def run(self, facts: Facts) -> Iterable[Finding]:
        for tensor in facts.grads:
            found = _used_twice(facts, tensor)
            if found is not None:
                used, adding, again = found
                name = facts.name(tensor)
                gradient = grad_of(name)
                named = uncalled(facts.files, "zero_grad")
                yield Finding(
                    self.code,
                    named or adding.place,
                    name,
                    f"zero_grad is named and not called here: each backward adds to {gradient}." if named is not None else
                    f"This backward adds to {gradient}, which still holds the gradient that was used before.",
                    [
                        fact(f"{gradient} is used", used.place),
                        fact("without a zero_grad in between, this backward adds to it", adding.place),
                        fact("and the sum is used", again.place),
                    ],
                    "zero_grad()  # with parentheses" if named is not None else
                    "opt.zero_grad()  # before each backward(); by hand: w.grad = None",
                    [used.place, adding.place],
                    tensor,
                )  # fmt: skip


def _used_twice(facts: Facts, tensor: int) -> tuple[GradEvent, GradEvent, GradEvent] | None:
    """Return (the first use, the backward that adds to it, the use of the sum)."""
    used: GradEvent | None = None
    adding: GradEvent | None = None
    there = False
    for event in facts.grads_and_updates(tensor):
        if event.kind == "edit" and (not event.direct or used is None or adding is not None):
            continue  # edits prepare a gradient for a step; between a step and a backward they decay it on purpose
        if event.kind in ("clear", "set", "edit"):
            used = adding = None
            there = event.kind == "set"
        elif event.kind == "write":
            if used is not None and event.found and adding is None:
                adding = event
            there = True
        elif event.kind == "step" and event.found and event.peak != 0:
            if adding is not None and used is not None:
                return used, adding, event
            if there:
                used = event
        elif event.kind == "read" and event.found and adding is not None and used is not None:
            return used, adding, event
    return None
