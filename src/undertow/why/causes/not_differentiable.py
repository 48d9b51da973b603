"""not-differentiable: an operation without a derivative."""

from __future__ import annotations

from undertow.why.causes.cut_off import CutOff
from undertow.why.trace import OpRecord


class NotDifferentiable(CutOff):
    """argmax, a comparison, indices of sort or topk, a cast to integers or booleans."""

    code = "not-differentiable"
    meaning = "an operation without a derivative: argmax, comparison, indices, integer cast"

    def words(self, op: OpRecord) -> tuple[str, str]:
        return (
            f"{op.name} has no derivative and its result no grad_fn",
            "use a smooth stand-in (softmax for argmax, sigmoid for a comparison), or a straight-through estimator",
        )
