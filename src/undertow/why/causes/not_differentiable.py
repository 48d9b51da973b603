"""not-differentiable: an operation without a derivative."""

from __future__ import annotations

from undertow.why.causes.cut_off import CutOff
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import failed_backward
from undertow.why.facts.paths import DRAWS
from undertow.why.finding import Finding, fact
from undertow.why.trace import ErrorRecord, OpRecord

_CASTS = frozenset("to type long int short char byte bool type_as".split())
_WITH_INDICES = frozenset("topk sort max min kthvalue mode median cummax cummin unique msort".split())


class NotDifferentiable(CutOff):
    """argmax, a comparison, indices of sort or topk, a cast to integers or booleans."""

    code = "not-differentiable"
    meaning = "an operation without a derivative: argmax, comparison, indices, integer cast"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        record = failed_backward(facts, error)
        if record is None or not error.message.endswith("is not implemented"):
            return super().failure(facts, error)
        for node in reversed(facts.trace.nodes):
            if node.name == "NotImplemented" and node.op is not None and record.id in node.reached:
                op = facts.trace.ops[node.op]
                subject = op.inputs[0] if op.inputs else record.roots[0]
                name = facts.name(subject)
                return Finding(
                    self.code,
                    op.place,
                    name,
                    f"{op.shown} of {name} is recorded, but has no derivative: backward() stops there.",
                    [fact(f"{op.shown} is recorded", op.place), fact(error.message, error.place)],
                    self.words(op)[1],
                    tensor=subject,
                )
        return None

    def words(self, op: OpRecord) -> tuple[str, str]:
        if op.name in _CASTS:
            return f"{op.shown} makes integers or booleans of it, which have no derivative", (
                "stay in floating point; round with a straight-through estimator: x + (x.round() - x).detach()"
            )
        if op.name in _WITH_INDICES:
            return f"the indices of {op.shown} have no derivative", "use the values that it returns beside its indices"
        if op.name.rstrip("_") in DRAWS:
            return f"{op.shown} draws at random, and has no derivative", (
                "a draw that lets gradients pass: rsample(), F.gumbel_softmax(logits, hard=True), "
                "draw + probs - probs.detach(); or a loss with log_prob(draw)"
            )
        return (
            f"{op.shown} has no derivative and its result no grad_fn",
            "use a smooth stand-in (softmax for argmax, sigmoid for a comparison), or a straight-through estimator",
        )
