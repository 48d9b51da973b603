"""Find the input of an autograd.grad() that its roots do not reach, after an error or a None used as a gradient."""

from __future__ import annotations

from undertow.why.facts.facts import Facts
from undertow.why.facts.missing_gradients import Miss
from undertow.why.trace import ErrorRecord, GradEvent


def unreached(facts: Facts, error: ErrorRecord) -> Miss | None:
    """Return the input of an autograd.grad() that its roots do not reach, if an error is about such an input."""
    if "NoneType" in error.message:
        for record in reversed(facts.trace.backwards):
            for tensor in record.left_out:
                return Miss(tensor, "none", [GradEvent(record.time + 1, "read", tensor, record.place)])
    if error.backward is None:
        return None
    record = facts.trace.backwards[error.backward]
    if "ifferentiated Tensors does not require grad" in error.message:
        for tensor in record.inputs or ():
            if facts.trace.tensors[tensor].node is None and not facts.requires_grad(tensor, record.time):
                return Miss(tensor, "none", [GradEvent(record.time, "read", tensor, record.place)])
    if "not have been used in the graph" not in error.message:
        return None
    for tensor in record.inputs or ():
        if record.id not in [other.id for other in facts.reaching(tensor)]:
            return Miss(tensor, "none", [GradEvent(record.time, "read", tensor, record.place)])
    return None
