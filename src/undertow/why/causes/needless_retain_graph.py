"""needless-retain-graph: the graph is retained but never used again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.trace import BackwardRecord


class NeedlessRetainGraph(Cause):
    """retain_graph=True keeps all saved values alive for a second backward that never happens."""

    code = "needless-retain-graph"
    meaning = "retain_graph=True at a call after which no backward goes through the kept graph again"
    needs = "which nodes each backward went through"

    def run(self, facts: Facts) -> Iterable[Finding]:
        if facts.trace.error is not None or not facts.trace.complete:
            return
        again = {number for node in facts.trace.nodes if node.leaf is None for number in node.reached[:-1]}
        lines: dict[tuple[str, int], list[BackwardRecord]] = defaultdict(list)
        for record in facts.trace.backwards:
            if record.retain and record.place is not None and record.error is None:
                lines[record.place.key].append(record)
        for records in lines.values():
            if not any(record.id in again for record in records):
                record = records[0]
                name = facts.name(record.roots[0]) if record.roots else "the graph"
                yield Finding(
                    self.code,
                    record.place,
                    name,
                    "retain_graph=True keeps the graph, and no later backward goes through it: it only holds memory.",
                    [
                        fact(f"the graph of {record.nodes} nodes is kept", record.place),
                        fact(f"it is so in all {len(records)} calls of this line"),
                    ],
                    "leave retain_graph=True out of this call",
                    tensor=record.roots[0] if record.roots else None,
                )
