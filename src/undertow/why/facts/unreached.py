"""Which input of an autograd.grad its root does not reach: it raised for that, or None was used as a gradient."""

from __future__ import annotations

from undertow.why.facts.facts import Facts
from undertow.why.facts.wants import Miss
from undertow.why.trace import ErrorRecord, GradEvent


def unreached(facts: Facts, error: ErrorRecord) -> Miss | None:
    """Return the input of an autograd.grad that its root does not reach, as a miss, if an error is about that."""
    if "NoneType" in error.message:
        for record in reversed(facts.trace.backwards):
            for tensor in record.left_out:
                return Miss(tensor, "none", [GradEvent(record.time + 1, "read", tensor, record.place)])
    if error.backward is None:
        return None
    record = facts.trace.backwards[error.backward]
    if "ifferentiated Tensors does not require grad" in error.message:
        for tensor in record.inputs or ():
            if facts.trace.tensors[tensor].node is None and not facts.asks(tensor, record.time):
                return Miss(tensor, "none", [GradEvent(record.time, "read", tensor, record.place)])
    if "not have been used in the graph" not in error.message:
        return None
    for tensor in record.inputs or ():
        if record.id not in [other.id for other in facts.reaching(tensor)]:
            return Miss(tensor, "none", [GradEvent(record.time, "read", tensor, record.place)])
    return None
