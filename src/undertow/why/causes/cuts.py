"""The causes that explain a cut, for findings about a hook that waits on its wrong side."""

from __future__ import annotations

from undertow.why.causes.detached import Detached
from undertow.why.causes.no_grad_mode import NoGradMode
from undertow.why.causes.not_differentiable import NotDifferentiable
from undertow.why.facts.graph_cuts import code_of_cut
from undertow.why.trace import OpRecord

_CAUSES = {cause.code: cause for cause in (Detached(), NoGradMode(), NotDifferentiable())}


def words_of_cut(op: OpRecord) -> tuple[str, str]:
    """Return (what a cut did, the cure)."""
    return _CAUSES[code_of_cut(op)].words(op)
