"""Exceptions: the backward pass that raised, and the tensor that the message is about."""

from __future__ import annotations

from dataclasses import dataclass

from undertow.why.facts.facts import Facts
from undertow.why.facts.graph_cuts import Origin, origin
from undertow.why.trace import BackwardRecord, ErrorRecord


@dataclass(slots=True)
class RootWithoutGraph:
    """backward() was called on a tensor that has no graph."""

    root: int
    origin: Origin


def errors(facts: Facts) -> list[ErrorRecord]:
    """Return the exceptions that ended the program or its threads, and those of backward passes that it caught."""
    trace = facts.trace
    found = [*([] if trace.error is None else [trace.error]), *trace.thread_errors]
    ended = {error.backward for error in found}
    for record in trace.backwards:
        if record.error is not None and record.id not in ended:
            kind, _, message = record.error.partition(": ")
            found.append(ErrorRecord(record.time, kind, message, record.place, record.id))
    return found


def failed_backward(facts: Facts, error: ErrorRecord) -> BackwardRecord | None:
    """Return the backward pass that raised an error."""
    return None if error.backward is None else facts.trace.backwards[error.backward]


def plain_input(facts: Facts, error: ErrorRecord) -> int | None:
    """Return the input that caused "one of the differentiated tensors does not require grad".

    An input that was cut from a graph is not returned: that has other causes.
    """
    record = failed_backward(facts, error)
    if record is None or "ifferentiated Tensors does not require grad" not in error.message:
        return None
    for tensor in record.inputs or ():
        maker = facts.maker(tensor, record.time)
        cut = maker is not None and any(maker.inputs_require_grad)
        if facts.trace.tensors[tensor].node is None and not facts.requires_grad(tensor, record.time) and not cut:
            return tensor
    return None


def root_without_graph(facts: Facts, error: ErrorRecord) -> RootWithoutGraph | None:
    """Return the root that caused "element 0 of tensors does not require grad", and why it does not."""
    record = failed_backward(facts, error)
    if record is None or "does not require grad" not in error.message:
        return None
    for root in record.roots:
        known = facts.trace.tensors[root]
        if known.node is None and not facts.requires_grad(root, record.time):
            found = origin(facts, root, record.time)
            if found is not None:
                return RootWithoutGraph(root, found)
    return None
