"""not-differentiable: an operation without a derivative."""

from __future__ import annotations

from undertow.why.causes.cut_off import CutOff
from undertow.why.facts.ways import DRAWS
from undertow.why.trace import OpRecord

_CASTS = frozenset("to type long int short char byte bool type_as".split())
_WITH_INDICES = frozenset("topk sort max min kthvalue mode median cummax cummin unique msort".split())


class NotDifferentiable(CutOff):
    """argmax, a comparison, indices of sort or topk, a cast to integers or booleans."""

    code = "not-differentiable"
    meaning = "an operation without a derivative: argmax, comparison, indices, integer cast"

    def words(self, op: OpRecord) -> tuple[str, str]:
        if op.name in _CASTS:
            return f"{op.name} makes integers or booleans of it, which have no derivative", (
                "stay in floating point; round with a straight-through estimator: x + (x.round() - x).detach()"
            )
        if op.name in _WITH_INDICES:
            return f"the indices of {op.name} have no derivative", "use the values that it returns beside its indices"
        if op.name.rstrip("_") in DRAWS:
            return f"{op.name} draws at random, and has no derivative", (
                "a draw that lets gradients pass: rsample(), F.gumbel_softmax(logits, hard=True), "
                "draw + probs - probs.detach(); or a loss with log_prob(draw)"
            )
        return (
            f"{op.name} has no derivative and its result no grad_fn",
            "use a smooth stand-in (softmax for argmax, sigmoid for a comparison), or a straight-through estimator",
        )
