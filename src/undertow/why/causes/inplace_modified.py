"""inplace-modified: a value that backward needs was overwritten."""

from __future__ import annotations

import re
from math import prod

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import failed_backward
from undertow.why.finding import Finding, fact
from undertow.why.trace import BackwardRecord, ErrorRecord, OpRecord, WriteRecord

_SHAPE = re.compile(r"\[torch\.\w+ \[([\d, ]*)\]\]")
_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")


class InplaceModified(Cause):
    """The line that overwrote it, not the one that saved it."""

    code = "inplace-modified"
    meaning = "a value saved for backward was changed in place"
    needs = "every in-place write, with the version it made, and which ops had seen the tensor before"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        record = failed_backward(facts, error)
        if record is None or "modified by an inplace operation" not in error.message:
            return None
        found = _write(facts, record, error.message)
        if found is None:
            return None
        write, saved = found
        name = facts.name(write.tensor)
        what = "the optimizer's step" if write.name == "step" else write.name
        return Finding(
            self.code,
            write.place,
            name,
            f"{what} changes {name} in place, and backward still needs its older value.",
            [
                fact(f"{saved.name} saves {name} for backward", saved.place),
                fact(f"{what} overwrites it", write.place),
                fact("backward finds the wrong version", record.place),
            ],
            "step after all backward() calls, or run the forward pass again after it" if write.name == "step" else
            f"use the out-of-place form, or change a copy: {name} = {name}.clone()",
            [],
            write.tensor,
        )  # fmt: skip


def _write(facts: Facts, record: BackwardRecord, message: str) -> tuple[WriteRecord, OpRecord] | None:
    """The first write, after an op of the graph had seen a tensor, that the message can mean."""
    trace = facts.trace
    nodes = [trace.nodes[number] for number in record.damaged]
    nodes = nodes or [node for node in trace.nodes if record.id in node.reached]
    ops = {node.op for node in nodes if node.op is not None}
    shape = _SHAPE.search(message)
    size = None if shape is None else prod(int(part) for part in shape[1].split(",") if part.strip())
    versions = _VERSIONS.search(message)
    best: tuple[WriteRecord, OpRecord] | None = None
    for number in sorted(ops):
        op = trace.ops[number]
        memories = {trace.tensors[tensor].memory for tensor in (*op.inputs, *op.outputs)}
        for write in trace.writes:
            tensor = trace.tensors[write.tensor]
            if tensor.memory not in memories or not op.time < write.time < record.time or write.op == op.id:
                continue
            if size is not None and size not in [trace.tensors[other].size for other in facts.memory[tensor.memory]]:
                continue  # the shape itself may be that of a view inside an op
            if versions is not None and write.version > int(versions[1]):
                continue
            if versions is not None and write.version <= int(versions[2]):
                continue
            if best is None or write.time < best[0].time:
                best = write, op
    return best
