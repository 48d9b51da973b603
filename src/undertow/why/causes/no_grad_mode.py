"""no-grad-mode: the path was computed with gradient mode off."""

from __future__ import annotations

from undertow.why.causes.cut_off import CutOff
from undertow.why.trace import OpRecord


class NoGradMode(CutOff):
    """no_grad, inference_mode or set_grad_enabled(False) around the path to the loss."""

    code = "no-grad-mode"
    meaning = "the path was computed with gradient mode off"

    def words(self, op: OpRecord) -> tuple[str, str]:
        return (
            f"gradient mode is off, so {op.name} is not recorded",
            "compute the training path outside torch.no_grad(); use `with torch.no_grad():` around evaluation only",
        )
