"""inplace-modified: a value that backward needs was overwritten."""

from __future__ import annotations

import re
from math import prod

from undertow.why.causes.base import Cause, has_no_name
from undertow.why.facts.carried import carried_name, carrier, dropped_detach, old_input, older_than, without_graph
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import failed_backward
from undertow.why.facts.intent import is_a_repeat
from undertow.why.finding import Finding, fact
from undertow.why.source import receiver
from undertow.why.trace import BackwardRecord, ErrorRecord, OpRecord, WriteRecord

_SHAPE = re.compile(r"\[torch\.\w+ \[([\d, ]*)\]\]")
_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")


class InplaceModified(Cause):
    """Names the line that overwrote the value, not the one that saved it."""

    code = "inplace-modified"
    meaning = "a value saved for backward was changed in place"
    needs = "every in-place write, with the version it made, and which ops had seen the tensor before"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        record = failed_backward(facts, error)
        if record is None:
            return self._refused(facts, error)
        if "modified by an inplace operation" not in error.message:
            return None
        found = _write(facts, record, error.message)
        if found is None:
            return None
        write, saved = found
        if write.name == "step" and _by_a_repeat(facts, write):
            return None  # of an optimizer with the wrong parameters: not-in-optimizer reports it
        first = _kept_graph(facts, record, write)
        if first is not None:
            old = older_than(facts, record, first)
            taken_by = carrier(facts, record, old)
            if taken_by is not None:
                return self._carried(facts, record, write, taken_by, old_input(facts, taken_by, old))
        name = facts.name(write.tensor)
        if has_no_name(name) and write.place is not None:
            name = receiver(write.place) or name
        what = "the optimizer's step" if write.name == "step" else write.name
        return Finding(
            self.code,
            write.place,
            name,
            f"{what} changes {name} in place, and backward still needs its older value.",
            [
                fact(f"{saved.shown} saves {name} for backward", saved.place),
                fact(f"{what} overwrites it", write.place),
                fact("backward finds the wrong version", record.place),
            ],
            "step after all backward() calls, or run the forward pass again after it" if write.name == "step" else
            "use the out-of-place form, or change a copy" + ("" if has_no_name(name) else f": {name} = {name}.clone()"),
            [],
            write.tensor,
        )  # fmt: skip

    def _carried(
        self, facts: Facts, record: BackwardRecord, write: WriteRecord, taken_by: OpRecord, old: int
    ) -> Finding:
        """Explain a state that is carried into the next pass with its kept graph, over an optimizer step."""
        name = carried_name(facts, taken_by, old)
        dropped = dropped_detach(facts, old, record)
        place = taken_by.place if dropped is None else dropped
        return Finding(
            self.code,
            place,
            name,
            f"{name} is carried into this pass with its graph from an earlier one. backward() goes through that graph "
            f"again, and the optimizer's step has changed {facts.name(write.tensor)} since.",
            [
                fact(f"{name} was computed", facts.made_at(old)),
                fact("the step changes the parameters of its graph", write.place),
                fact("it is carried into the next pass", taken_by.place),
                fact("whose backward() goes back into the old graph and fails", record.place),
            ],
            f"{without_graph(name)}; retain_graph=True is then not needed",
            [*(taken_by.place.chain() if taken_by.place is not None else ()), place],
            old,
        )

    def _refused(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        """Explain a refused in-place change: of a leaf, or of a view that cannot update its base's graph."""
        refused = facts.trace.refused[-1] if facts.trace.refused else None
        if refused is None or refused.error != error.message or not refused.inputs:
            return None
        leaf = "leaf Variable that requires grad" in error.message
        if not leaf and "is being modified inplace" not in error.message:
            return None
        name = facts.name(refused.inputs[0])
        what = "a leaf that requires grad" if leaf else "a view that autograd cannot follow"
        return Finding(
            self.code,
            refused.place,
            name,
            f"{refused.name} changes {name} in place, which is {what}: the graph would lose its older value.",
            [fact(f"{refused.name} is refused", refused.place), fact(error.message.splitlines()[0], error.place)],
            f"with torch.no_grad(): ...  # for an update by hand; or work on {name}.clone()" if leaf else
            "use the out-of-place form: inplace=False, x = x + 1 in place of x += 1",
            tensor=refused.inputs[0],
        )  # fmt: skip


def _by_a_repeat(facts: Facts, write: WriteRecord) -> bool:
    """Whether a step changed a tensor of an optimizer that repeats another's list, while other parameters have none."""
    stepped = [
        optimizer for optimizer in facts.trace.optimizers
        if write.tensor in optimizer.tensors and any(step.place == write.place for step in optimizer.steps)
    ]  # fmt: skip
    held = {tensor for optimizer in facts.trace.optimizers for tensor in optimizer.tensors}
    tensors = facts.trace.tensors
    forgotten = [event for event in facts.trace.grads if event.kind == "write" and event.tensor not in held]
    return any(is_a_repeat(facts, one) for one in stepped) and any(tensors[one.tensor].parameter for one in forgotten)


def _kept_graph(facts: Facts, record: BackwardRecord, write: WriteRecord) -> BackwardRecord | None:
    """Return the earlier backward of the same line, before an optimizer's step, whose kept graph a backward needs again."""
    if write.name != "step" or record.place is None:
        return None
    for first in reversed(facts.trace.backwards[: record.id]):
        if first.place is not None and first.place.key == record.place.key and first.time < write.time:
            again = any(first.id in node.ran and record.id in node.reached for node in facts.trace.nodes)
            return first if again else None
    return None


def _write(facts: Facts, record: BackwardRecord, message: str) -> tuple[WriteRecord, OpRecord] | None:
    """Return the first write after an op of the graph used the tensor that fits the error message."""
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
                continue  # the shape may be that of a view inside an op
            if versions is not None and write.version > int(versions[1]):
                continue
            if versions is not None and write.version <= int(versions[2]):
                continue
            if best is None or write.time < best[0].time:
                best = write, op
    return best
