"""For "one of the differentiated Tensors appears to not have been used": which one, and what became of it."""

from __future__ import annotations

from undertow.why.facts.facts import Facts
from undertow.why.facts.wants import Miss
from undertow.why.trace import ErrorRecord, GradEvent


def unreached(facts: Facts, error: ErrorRecord) -> Miss | None:
    """The input of a failed autograd.grad that its root does not reach, as a missed gradient."""
    if error.backward is None or "not have been used in the graph" not in error.message:
        return None
    record = facts.trace.backwards[error.backward]
    for tensor in record.inputs or ():
        if record.id not in [other.id for other in facts.reaching(tensor)]:
            return Miss(tensor, "none", [GradEvent(record.time, "read", tensor, record.place)])
    return None
