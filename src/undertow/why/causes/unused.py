"""unused: no operation uses it."""

from __future__ import annotations

from undertow.why.causes.base import Cause, consumer_fact
from undertow.why.facts.facts import Facts
from undertow.why.facts.lost import lost
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Finding, fact


class Unused(Cause):
    """A parameter that is defined but never used."""

    code = "unused"
    meaning = "never an input of any operation"
    needs = "the inputs of every op"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        if miss.kind != "none" or not facts.trace.complete:
            return None
        found = lost(facts, miss.tensor, miss.consumers)
        if found.code != self.code:
            return None
        name = facts.name(miss.tensor)
        return Finding(
            self.code,
            found.place,
            name,
            f"{name} is made here and no operation of the whole run uses it.",
            [fact(f"{name} is made", found.place), consumer_fact(facts, miss)],
            f"use {name} in forward, or delete it",
            tensor=miss.tensor,
        )
