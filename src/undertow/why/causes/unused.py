"""unused: no operation uses it."""

from __future__ import annotations

from undertow.why.causes.base import Cause, asking, consumer_fact
from undertow.why.facts.facts import Facts
from undertow.why.facts.lost import lost
from undertow.why.facts.missing_gradients import Miss, copy_instead
from undertow.why.finding import Finding, fact


class Unused(Cause):
    """A parameter that is defined but never used."""

    code = "unused"
    meaning = "never an input of any operation"
    needs = "the inputs of every op"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        if miss.kind != "none" or not (facts.trace.complete or _was_due(facts, miss.tensor)):
            return None
        found = lost(facts, miss.tensor, miss.consumers)
        if found.code != self.code or copy_instead(facts, miss) is not None:
            return None
        name = facts.name(miss.tensor)
        observed = "whole run" if facts.trace.complete else "watched steps"
        cure = f"use {name} in forward, or delete it"
        if asking(facts, miss) is not None and facts.maker(miss.tensor) is not None:
            cure = f"give autograd.grad() the tensor that its output is computed from, in place of {name}"
        return Finding(
            self.code,
            found.place,
            name,
            f"{name} is made here and no operation of the {observed} uses it.",
            [fact(f"{name} is made", found.place), consumer_fact(facts, miss)],
            cure,
            tensor=miss.tensor,
        )


def _was_due(facts: Facts, tensor: int) -> bool:
    """Whether an optimizer of a tensor stepped twice: a run that was cut short had whole steps to use the tensor in."""
    return any(len(holder.steps) >= 2 for holder in facts.holders(tensor))
