"""growing-graph: each backward goes through the graphs of all earlier rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from undertow.why.causes.base import Cause
from undertow.why.facts.carried import carried_name, carrier, dropped_detach, old_input, older_than, without_graph
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact, note
from undertow.why.trace import BackwardRecord

_ROUNDS = 3  # as many passes must grow


class GrowingGraph(Cause):
    """A state is carried from step to step with its graph, which retain_graph=True keeps."""

    code = "growing-graph"
    meaning = "a state is carried over steps with its graph, so each backward goes through all earlier steps"
    needs = "the nodes that each backward went through"

    def run(self, facts: Facts) -> Iterable[Finding]:
        lines: dict[object, list[BackwardRecord]] = defaultdict(list)
        for record in facts.trace.backwards:
            if record.place is not None and record.retain and not record.create and record.error is None:
                lines[record.place.key].append(record)
        for records in (records[: _ROUNDS + 1] for records in lines.values()):
            grown = [(one, two) for one, two in pairwise(records) if _goes_back(facts, one, two)]
            if len(grown) + 1 >= _ROUNDS and len(grown) == len(records) - 1:
                yield from self._note(facts, *grown[-1])

    def _note(self, facts: Facts, first: BackwardRecord, record: BackwardRecord) -> Iterable[Finding]:
        old = older_than(facts, record, first)
        taken_by = carrier(facts, record, old)
        if taken_by is None:
            return
        tensor = old_input(facts, taken_by, old)
        name, dropped = carried_name(facts, taken_by, tensor), dropped_detach(facts, tensor, record)
        yield note(
            self.code,
            taken_by.place if dropped is None else dropped,
            name,
            f"{name} is carried into this pass with its graph, so each backward() goes through all earlier rounds again: "
            f"{first.nodes} nodes, then {record.nodes}.",
            [
                fact(f"{name} was computed", facts.made_at(tensor)),
                fact("it is carried into the next pass", taken_by.place),
                fact("whose backward() goes through both graphs", record.place),
            ],
            f"{without_graph(name)}; retain_graph=True is then not needed",
            [*(taken_by.place.chain() if taken_by.place is not None else ())],
            tensor,
        )


def _goes_back(facts: Facts, first: BackwardRecord, record: BackwardRecord) -> bool:
    """Whether a pass is larger than an earlier one and goes through its graph again, with a step in between."""
    if record.nodes <= first.nodes or not facts.stepped(first.time, record.time):
        return False
    return any(
        first.id in node.reached and record.id in node.reached for node in facts.trace.nodes if node.leaf is None
    )
