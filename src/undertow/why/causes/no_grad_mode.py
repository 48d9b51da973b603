"""no-grad-mode: the path was computed with gradient mode off."""

from __future__ import annotations

from undertow.why.causes.cut_off import CutOff
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.source import called_at
from undertow.why.trace import ErrorRecord, OpRecord


class NoGradMode(CutOff):
    """no_grad, inference_mode or set_grad_enabled(False) around the path to the loss."""

    code = "no-grad-mode"
    meaning = "the path was computed with gradient mode off"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        if "Inference tensor" in error.message and facts.trace.refused:
            refused = facts.trace.refused[-1]
            for tensor in refused.inputs:
                maker = facts.maker(tensor)
                if maker is not None and maker.off is not None:
                    seen = fact(f"{refused.name} cannot be recorded with it", refused.place)
                    return self._finding(facts, tensor, maker, [], [seen])
        return super().failure(facts, error)

    def words(self, op: OpRecord) -> tuple[str, str]:
        called = "" if op.off is None else called_at(op.off)
        if called in _CURES:
            return f"{called}() runs with gradient mode off, so {op.shown} is not recorded", _CURES[called]
        return (
            f"gradient mode is off, so {op.shown} is not recorded",
            "compute the training path outside torch.no_grad(); use `with torch.no_grad():` around evaluation only",
        )


# Functions that disable gradient mode themselves.
_CURES = {
    "sample": "distribution.rsample()  # sample() gives values without a graph",
    "checkpoint": "checkpoint(f, x, use_reentrant=False); the old kind needs an input that requires grad",
}
