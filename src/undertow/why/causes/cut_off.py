"""What detached, no-grad-mode and not-differentiable share: the path to the loss leaves the graph."""

from __future__ import annotations

from undertow.why.causes.base import Cause, consumer_fact, path
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import root_without_graph
from undertow.why.facts.lost import lost
from undertow.why.facts.missing_gradients import Miss
from undertow.why.facts.origin import origin, place_of_cut
from undertow.why.finding import Fact, Finding, fact
from undertow.why.places import Place
from undertow.why.trace import ErrorRecord, OpRecord


class CutOff(Cause):
    """A tensor's values reach the loss, its graph does not."""

    needs = "every op with its inputs, recorded or not, gradient mode, and the roots of backward()"

    def words(self, op: OpRecord) -> tuple[str, str]:
        """Return (what the cut did, the cure)."""
        raise NotImplementedError

    def also(self, op: OpRecord) -> list[Place | None]:
        """Return lines that are as valid as the cut's own."""
        return [op.place]

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        if miss.kind != "none":
            return None
        record = facts.trace.tensors[miss.tensor]
        asks = any(facts.requires_grad(miss.tensor, event.time) for event in miss.consumers)
        if record.node is None and not asks:  # it is itself the result of a cut
            found_origin = origin(facts, miss.tensor, miss.consumers[0].time)
            if found_origin is None or found_origin.code != self.code or found_origin.op is None:
                return None
            return self._finding(facts, miss.tensor, found_origin.op, [], [consumer_fact(facts, miss)])
        found = lost(facts, miss.tensor, miss.consumers)
        if found.code != self.code or found.cut is None:
            return None
        source = found.cut.inputs[0] if found.cut.inputs else miss.tensor
        way = path(facts, found.flow, source) if source in found.flow.stops else []
        return self._finding(facts, miss.tensor, found.cut, way, [consumer_fact(facts, miss)])

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        found = root_without_graph(facts, error)
        if found is None or found.origin.code != self.code or found.origin.op is None:
            return None
        seen = fact("backward() finds that its root has no graph", error.place)
        return self._finding(facts, found.root, found.origin.op, [], [seen], is_root=True)

    def _finding(
        self, facts: Facts, tensor: int, op: OpRecord, way: list[Fact], seen: list[Fact], is_root: bool = False
    ) -> Finding:
        name = facts.name(tensor)
        did, cure = self.words(op)
        place = place_of_cut(op)
        return Finding(
            self.code,
            place,
            name,
            f"{name} is to be differentiated and has no graph: {did}." if is_root else
            f"The values of {name} go into the loss, its graph does not: {did}.",
            [*way, fact(f"the graph ends here: {did}", op.place), *seen],
            cure,
            self.also(op),
            tensor,
        )  # fmt: skip
