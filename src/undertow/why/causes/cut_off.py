"""What detached, no-grad-mode and not-differentiable share: the path to the loss leaves the graph."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause, consumer_fact, has_no_name, path
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import root_without_graph
from undertow.why.facts.graph_cuts import code_of_cut, origin, place_of_cut
from undertow.why.facts.lost import lost
from undertow.why.facts.missing_gradients import Miss, misses
from undertow.why.facts.terms import DeadTerm, dead_terms
from undertow.why.finding import Fact, Finding, fact
from undertow.why.places import Place
from undertow.why.source import receiver
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

    def run(self, facts: Facts) -> Iterable[Finding]:
        """Find terms of a loss that give no parameter of the step a gradient."""
        missing = {miss.tensor for miss in facts.once(misses) if miss.kind == "none"}
        for dead in facts.once(dead_terms):
            cut = dead.cut
            if code_of_cut(cut) != self.code or dead.frozen is not None:
                continue
            taken = {number for one in dead.cuts for number in facts.trace.ops[one].inputs}
            graphs = facts.below([node for number in taken for node in facts.nodes_of(number)])
            if missing.isdisjoint({facts.trace.nodes[node].leaf for node in graphs} | taken):
                yield self._dead(facts, dead)

    def _dead(self, facts: Facts, dead: DeadTerm) -> Finding:
        number = dead.cut.inputs[0] if dead.term is None and dead.cut.inputs else dead.term
        name = "a term of the loss" if number is None else facts.name(number)
        if dead.term is None and dead.cut.place is not None and has_no_name(name):
            name = receiver(dead.cut.place) or name  # `layer.kl()` in `layer.kl().item()`
        did, cure = self.words(dead.cut)
        if dead.place is None:
            return Finding(
                self.code,
                place_of_cut(dead.cut),
                name,
                f"backward() of {name} gives no gradient to the parameters that the next step changes: {did}.",
                [
                    fact(f"the graph ends here: {did}", dead.cut.place),
                    fact("backward() writes gradients that no step uses", dead.record.place),
                ],
                cure,
                self.also(dead.cut),
            )
        return Finding(
            self.code,
            place_of_cut(dead.cut),
            name,
            f"{name} is a term of the loss that trains nothing: its value is added, its graph is not: {did}.",
            [
                fact(f"the graph ends here: {did}", dead.cut.place),
                fact(f"{name} is added to the loss", dead.place),
                fact("backward() goes through the other terms only", dead.record.place),
            ],
            cure,
            self.also(dead.cut),
        )

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
