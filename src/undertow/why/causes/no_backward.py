"""no-backward: its graph was never differentiated."""

from __future__ import annotations

from undertow.why.causes.base import Cause, consumer_fact, grad_of, has_no_name, path
from undertow.why.facts.facts import Facts
from undertow.why.facts.lost import graph_exit, is_forgotten, lost
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Finding, fact
from undertow.why.statements import backward_after


class NoBackward(Cause):
    """backward() was never called on what was computed from it; autograd.grad() writes no .grad."""

    code = "no-backward"
    meaning = "no backward() ever reached its graph"
    needs = "the graph of every forward pass, and which part each backward() and autograd.grad() reached"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        if miss.kind != "none":
            return None
        name = facts.name(miss.tensor)
        reaching = facts.reaching(miss.tensor)
        cut = graph_exit(facts, miss.tensor, miss.consumers).cut
        only_grad = reaching and all(record.kind == "grad" for record in reaching)
        asked = [] if _goes_on(facts, miss.tensor) else [one for one in reaching if miss.tensor in (one.inputs or ())]
        if only_grad and (asked or (cut is None and not is_forgotten(facts, miss.tensor))):
            call = (asked or reaching)[-1]
            roots = [facts.made_at(root) for root in call.roots]
            return Finding(
                self.code,
                call.place,
                name,
                f"torch.autograd.grad() returns the gradient of {name} and writes no .grad.",
                [fact("autograd.grad() is called, and backward() never", call.place), consumer_fact(facts, miss)],
                "loss.backward()  # or write the results: p.grad = g",
                [*roots],
                miss.tensor,
            )
        found = lost(facts, miss.tensor, miss.consumers)
        if found.code != self.code or found.sink is None:
            return None
        end = facts.name(found.sink)
        read, error = miss.read, facts.trace.error
        later = backward_after(read.place, end) if read is not None and read.place is not None else None
        if read is not None and later is not None and error is not None and error.time > read.time:
            return Finding(
                self.code,
                read.place,
                name,
                f"{grad_of(name)} is used here, before {end}.backward() has computed it.",
                [fact(f"{end} is computed", found.place), consumer_fact(facts, miss),
                 fact(f"{end}.backward() comes after", later)],
                f"{end}.backward()  # before this line",
                [found.place, later],
                miss.tensor,
            )  # fmt: skip
        return Finding(
            self.code,
            found.place,
            name,
            f"{name} goes into {end}, and no backward() was ever called on it.",
            [*path(facts, found.flow, found.sink), fact(f"{end} is computed, and never differentiated", found.place),
             consumer_fact(facts, miss)],
            f"{end}.backward()  # or add {end} to the loss that is differentiated" if not has_no_name(end) else
            "call backward() on it, or add it to the loss that is differentiated",
            tensor=miss.tensor,
        )  # fmt: skip


def _goes_on(facts: Facts, tensor: int) -> bool:
    """Whether the result of autograd.grad() for a tensor feeds a loss that backward() is called on."""
    ops = [facts.trace.ops[number] for number in facts.paths.differentiated]
    return any(op.kind == "grad" and tensor in op.inputs for op in ops)
