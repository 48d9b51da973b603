"""freed-graph: a backward needs what an earlier one freed."""

from __future__ import annotations

from undertow.why.causes.base import Cause
from undertow.why.facts.carried import (
    carried_name,
    carrier,
    dropped_detach,
    is_made_again,
    is_variable,
    old_input,
    older_than,
    without_graph,
)
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import failed_backward
from undertow.why.finding import Finding, fact
from undertow.why.trace import BackwardRecord, ErrorRecord, OpRecord


class FreedGraph(Cause):
    """ "Trying to backward through the graph a second time"."""

    code = "freed-graph"
    meaning = "a backward needs a part that an earlier backward freed"
    needs = "which nodes each backward went through, and which op took a freed tensor"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        record = failed_backward(facts, error)
        if record is None or "a second time" not in error.message:
            return None
        freed = _freed(facts, record)
        if not freed:
            return None
        first = facts.trace.backwards[max(freed.values())]
        same_line = first.place is not None and record.place is not None and first.place.key == record.place.key
        old = older_than(facts, record, first)
        taken_by = carrier(facts, record, old)
        if same_line and taken_by is not None:
            return self._carried(facts, record, first, taken_by, old)
        subject = facts.name(record.roots[0])
        taker = carrier(facts, record, set(freed))
        if taker is not None and _stepped_since(facts, set(freed), first, record):
            return self._stepped(facts, record, first, taker, old_input(facts, taker, set(freed)))
        shared = None if taker is None else facts.made_at(old_input(facts, taker, set(freed)))
        return Finding(
            self.code,
            first.place,
            subject,
            "This backward frees its graph, and a later backward needs a part of it again.",
            [fact("the first backward frees the graph", first.place), fact("the second one fails", record.place)],
            f"{_call(facts, first)} here; or add the losses and differentiate once",
            [shared],
        )

    def _stepped(
        self, facts: Facts, record: BackwardRecord, first: BackwardRecord, taker: OpRecord, old: int
    ) -> Finding:
        """Explain a second pass through a graph whose parameters were stepped: to keep the graph would not help."""
        name = facts.name(old)
        it = name if is_variable(name) else "it"
        return Finding(
            self.code,
            taker.place,
            name,
            f"This line uses {name}, whose graph an earlier backward has freed; a step has changed the parameters in it "
            "since.",
            [
                fact(f"{name} was computed", facts.made_at(old)),
                fact("backward freed its graph", first.place),
                fact(f"{name} is used again", taker.place),
                fact("the second backward fails", record.place),
            ],
            f"{it}.detach() here; or compute {it} anew, if this loss is to train what computes {it}",
            [facts.made_at(old), first.place, record.place],
        )

    def _carried(
        self, facts: Facts, record: BackwardRecord, first: BackwardRecord, taken_by: OpRecord, nodes: set[int]
    ) -> Finding:
        old = old_input(facts, taken_by, nodes)
        name = carried_name(facts, taken_by, old)
        old_name = "a tensor" if name.startswith("the tensor") else name
        made = facts.made_at(old)
        if _hides_a_parameter(facts, old) and not is_made_again(facts, old, first, record):
            return Finding(
                self.code,
                made,
                name,
                f"{name} is computed once, here, from an nn.Parameter that its module does not hold: it is not a parameter "
                "itself, and the first backward frees its graph.",
                [
                    fact(f"{name} is computed", made),
                    fact("backward freed its graph", first.place),
                    fact("the next pass uses it again", taken_by.place),
                ],
                f"{name} = nn.Parameter(...)  # with the final values: casts and products inside the parentheses",
                [taken_by.place],
            )
        dropped = dropped_detach(facts, old, record)
        if dropped is not None:
            return Finding(
                self.code,
                dropped,
                name,
                f"detach() returns a new tensor, which is dropped here: {old_name} keeps its graph, which the next pass "
                "uses and backward has freed.",
                [
                    fact("the result of detach() is dropped", dropped),
                    fact("backward freed the graph", first.place),
                    fact(f"{old_name} is carried into the next pass", taken_by.place),
                    fact("whose backward fails", record.place),
                ],
                without_graph(name),
                [taken_by.place],
            )
        return Finding(
            self.code,
            taken_by.place,
            name,
            f"This line uses {old_name}, whose graph belongs to an earlier pass, and that pass's backward has freed it.",
            [
                fact(f"{old_name} was computed", facts.made_at(old)),
                fact("backward freed its graph", first.place),
                fact("it is carried into the next pass", taken_by.place),
                fact("whose backward fails", record.place),
            ],
            _cure(facts, name, old, first, record),
            [*(taken_by.place.chain() if taken_by.place is not None else ()), made],
        )


def _cure(facts: Facts, name: str, old: int, first: BackwardRecord, record: BackwardRecord) -> str:
    """Return the cure for a tensor that is carried into the next pass."""
    if is_made_again(facts, old, first, record):
        return without_graph(name)
    if facts.stepped(first.time, record.time):
        it = name if is_variable(name) else "it"
        return f"compute {it} anew in each pass; or {it}.detach(), if its own gradient is not wanted"
    return f"{_call(facts, first)} in all calls but the last; or add the losses and differentiate once"


def _hides_a_parameter(facts: Facts, tensor: int) -> bool:
    """Whether a module's plain attribute was computed from parameters that no module has: `nn.Parameter(t) * 0.1`."""
    if facts.trace.tensors[tensor].attribute_of is None:
        return False
    leaves = [facts.trace.nodes[node].leaf for node in facts.below(facts.nodes_of(tensor))]
    return all(facts.trace.tensors[leaf].module is None for leaf in leaves if leaf is not None)


def _stepped_since(facts: Facts, freed: set[int], first: BackwardRecord, record: BackwardRecord) -> bool:
    """Whether a step changed a leaf of the freed graph between two backward passes."""
    leaves = [facts.trace.nodes[node].leaf for node in facts.below(list(freed))]
    return facts.stepped(first.time, record.time, [leaf for leaf in leaves if leaf is not None])


def _called(facts: Facts, record: BackwardRecord) -> str:
    """Return the program's name for the root of a backward pass."""
    name = facts.name(record.roots[0]) if record.roots else ""
    return name if is_variable(name) else "loss"


def _call(facts: Facts, record: BackwardRecord) -> str:
    """Return a backward call with retain_graph=True."""
    if record.kind == "grad":
        return "torch.autograd.grad(..., retain_graph=True)"
    return f"{_called(facts, record)}.backward(retain_graph=True)"


def _freed(facts: Facts, record: BackwardRecord) -> dict[int, int]:
    """Return the nodes that a failed backward reached, mapped to the earlier backward that had freed them."""
    backwards = facts.trace.backwards
    found = {}
    for node in facts.trace.nodes:
        if node.leaf is None and record.id in node.reached:
            earlier = [number for number in node.ran if number < record.id and backwards[number].frees]
            if earlier:
                found[node.id] = earlier[0]
    return found
