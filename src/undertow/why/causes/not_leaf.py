"""not-leaf: `.grad` of a computed tensor."""

from __future__ import annotations

from undertow.why.causes.base import Cause, asking, consumer_fact, has_no_name
from undertow.why.facts.facts import Facts
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Finding, fact
from undertow.why.places import Place
from undertow.why.source import owner_at
from undertow.why.trace import ErrorRecord, OpRecord, TensorRecord


class NotLeaf(Cause):
    """A computed tensor keeps no gradient without retain_grad()."""

    code = "not-leaf"
    meaning = ".grad is read on a computed tensor without retain_grad()"
    needs = "reads of .grad, and the op that made the tensor"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        record = facts.trace.tensors[miss.tensor]
        asked = miss.consumers[0].time
        maker = facts.maker(miss.tensor, asked)
        if miss.kind != "none" or maker is None or not _is_computed(maker, miss.tensor) or _is_kept(facts, record):
            return None
        if asking(facts, miss) is not None:
            return None  # autograd.grad() takes computed tensors, too
        return self._finding(
            facts, miss.tensor, maker, [consumer_fact(facts, miss)], [event.place for event in miss.consumers]
        )

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        if "non-leaf" not in error.message:
            return None
        for optimizer in facts.trace.optimizers:
            for tensor in optimizer.refused:
                maker = facts.maker(tensor)
                if maker is not None:
                    seen = fact("the optimizer takes leaves only, and refuses it", optimizer.place)
                    return self._finding(facts, tensor, maker, [seen], [optimizer.place])
        return None

    def _finding(self, facts: Facts, tensor: int, maker: OpRecord, seen: list, also: list) -> Finding:
        read = next((called for place in also if place is not None and (called := owner_at(place))), "")
        name = read if read.isidentifier() else facts.name(tensor)
        return Finding(
            self.code,
            maker.place,
            name,
            f"{name} is the result of {maker.name}, not a leaf: backward() goes through it and keeps no gradient there.",
            [fact(f"{maker.name} makes {name} a computed tensor", maker.place), *seen],
            _cure(facts, tensor, name, also),
            also,
            tensor,
        )


def _cure(facts: Facts, tensor: int, name: str, reads: list[Place | None]) -> str:
    """Return where to call retain_grad(): in the hook that received the tensor, or by the name it is read under."""
    for firing in facts.trace.firings:
        hook = facts.trace.hooks[firing.hook]
        if hook.kind == "forward" and hook.user and tensor in firing.given and hook.defined is not None:
            return f"output.retain_grad()  # in the hook of line {hook.defined.line}, which is given the tensor"
    if has_no_name(name):
        name = next((called for place in reads if place is not None and (called := owner_at(place))), "t")
    return (
        f"{name}.retain_grad()  # before backward(); or make the final value the leaf: "
        f"{name} = (...).detach().requires_grad_()"
    )


def _is_kept(facts: Facts, record: TensorRecord) -> bool:
    """Whether retain_grad() was called before the last backward pass."""
    passes = facts.reaching(record.id)
    return record.retained is not None and (not passes or record.retained < passes[-1].time)


def _is_computed(op: OpRecord, tensor: int) -> bool:
    return any(
        node is not None and gave
        for made, gave, node in zip(op.outputs, op.outputs_require_grad, op.output_nodes)
        if made == tensor
    )
