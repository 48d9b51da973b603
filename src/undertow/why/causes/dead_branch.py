"""dead-branch: used, but its results never reach the loss."""

from __future__ import annotations

from undertow.why.causes.base import Cause, consumer_fact, path
from undertow.why.facts.facts import Facts
from undertow.why.facts.lost import lost
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Finding, fact
from undertow.why.source import is_whole_value
from undertow.why.statements import hands_back


class DeadBranch(Cause):
    """Part of a forward pass was computed but left out of the loss."""

    code = "dead-branch"
    meaning = "its results never reach a differentiated root, but other results of the same forward do"
    needs = "the graph of every forward pass, and which part each backward() reached"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        if miss.kind != "none":
            return None
        found = lost(facts, miss.tensor, miss.consumers)
        if found.code != self.code or found.sink is None:
            return None
        name, end = facts.name(miss.tensor), facts.name(found.sink)
        place = found.place
        while place is not None and place.outer is not None and is_whole_value(place) and hands_back(place):
            place = place.outer  # the function returns it, and its caller drops it
        return Finding(
            self.code,
            place,
            name,
            f"{name} is used, but its path ends in {end}, which goes into no loss that is differentiated.",
            [
                *path(facts, found.flow, found.sink),
                fact(f"{end} is the end of the path: nothing differentiated uses it", place),
                consumer_fact(facts, miss),
            ],
            f"use {end} in the loss: loss = loss + ... {end} ...",
            [found.place],
            miss.tensor,
        )
