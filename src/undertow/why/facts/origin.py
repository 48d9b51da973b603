"""Why a tensor does not ask for gradients: the nearest place behind it where the graph was left, or the leaves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from undertow.why.facts.facts import Facts
from undertow.why.facts.ways import may_be_meant, weight
from undertow.why.places import Place
from undertow.why.source import only_looked_at, reads_of_grad
from undertow.why.trace import OpRecord


@dataclass(slots=True)
class Origin:
    """`code` is the gradient code that fits; `op` the op that left the graph, `leaf` the tensor that never asked."""

    code: str
    place: Place | None
    op: OpRecord | None = None
    leaf: int | None = None
    frozen: bool = False


def code_of_cut(op: OpRecord) -> str:
    """Which code an op has that took a tensor out of the graph."""
    if op.kind in ("cut", "leaves", "enters") or (op.kind == "grad" and not op.grad_mode):
        return "detached"
    if not op.grad_mode:
        return "no-grad-mode"
    return "not-differentiable"


def place_of_cut(op: OpRecord) -> Place | None:
    """Return the line of a cut: for gradient mode, what switched it off."""
    if code_of_cut(op) == "no-grad-mode" and op.off is not None:
        return op.off
    return op.place


def origin(facts: Facts, tensor: int, time: int) -> Origin | None:
    """Look back from a tensor that did not ask for gradients at a time."""
    trace = facts.trace
    queue = deque([(tensor, time)])
    seen = {tensor}
    leaves: list[int] = []
    cuts: list[OpRecord] = []
    while queue:
        current, before = queue.popleft()
        op = facts.maker(current, before)
        known = trace.tensors[current]
        if op is None or not (op.inputs or op.scalars) or known.parameter or known.flags:
            leaves.append(current)
            continue
        if current in op.inputs and current in op.writes:
            queue.append((current, op.time))  # it was only changed here
        if any(op.asked) and not _gave(op, current):
            cuts.append(op)
            continue
        left = [found for number in op.scalars if (found := _left(facts, number, op)) is not None and any(found.asked)]
        if left:
            cuts.append(left[0])
            continue
        if facts.holders(current):
            leaves.append(current)  # whatever it was made from, it is what the optimizer was given
            continue
        for number in (*op.inputs, *op.scalars):
            if number not in seen:
                seen.add(number)
                queue.append((number, op.time))
    frozen = [leaf for leaf in leaves if facts.holders(leaf) and (flag := facts.flag(leaf, time)) and not flag.value]
    if frozen and all(map(may_be_meant, cuts)):
        return _leaf_origin(facts, frozen, time)  # nobody means to step what is frozen
    if cuts:
        worst = max(weight(op) for op in cuts)
        op = next(op for op in cuts if weight(op) == worst)  # the nearest of them
        return Origin(code_of_cut(op), place_of_cut(op), op)
    escaped = _escaped(facts, leaves, time)
    if escaped is not None:
        return Origin("detached", escaped.place, escaped)
    floating = [leaf for leaf in leaves if trace.tensors[leaf].floating]
    return _leaf_origin(facts, floating, time)


def _gave(op: OpRecord, tensor: int) -> bool:
    return any(gave for output, gave in zip(op.outputs, op.gave) if output == tensor)


def _left(facts: Facts, tensor: int, op: OpRecord) -> OpRecord | None:
    """Return the op by which a tensor's number left torch before it came back to `op`."""
    for number in reversed(facts.uses[tensor]):
        left = facts.trace.ops[number]
        if left.kind == "leaves" and left.time < op.time:
            return left
    return None


def _escaped(facts: Facts, leaves: list[int], time: int) -> OpRecord | None:
    """Values that went to Python before a root was made from Python numbers alone."""
    trace = facts.trace
    entered = [trace.ops[maker] for leaf in leaves if (maker := trace.tensors[leaf].maker) is not None]
    entered = [op for op in entered if op.kind == "enters"]
    if not entered or any(trace.tensors[leaf].parameter for leaf in leaves):
        return None
    latest = max(op.time for op in entered)
    for op in reversed(trace.ops):
        if op.time < latest and op.kind == "leaves" and op.name not in ("__bool__", "__repr__"):
            cut = op if any(op.asked) else _cut_before(facts, op)
            if cut is not None and not only_looked_at(op.place, facts.ran):
                return cut
    return None


def _cut_before(facts: Facts, left: OpRecord) -> OpRecord | None:
    """Return the detach of `x.detach().numpy()`, of an x that had a graph."""
    made = [facts.maker(number, left.time) for number in left.inputs]
    return next((op for op in made if op is not None and op.kind == "cut" and any(op.asked)), None)


def _leaf_origin(facts: Facts, leaves: list[int], time: int) -> Origin | None:
    """Which leaf should have asked: one that an optimizer holds, a frozen one, a parameter, one whose gradient is wanted,
    the first."""
    trace = facts.trace
    leaves = [leaf for leaf in leaves if facts.holders(leaf)] or leaves
    for leaf in leaves:
        flag = facts.flag(leaf, time)
        if flag is not None and not flag.value:
            return Origin("no-requires-grad", flag.place, leaf=leaf, frozen=True)
    wanted = [leaf for leaf in leaves if trace.tensors[leaf].parameter or facts.grads.get(leaf)]
    mentioned = [leaf for leaf in leaves if _is_mentioned(facts, leaf)]
    for leaf in (*wanted, *mentioned, *leaves):
        return Origin("no-requires-grad", facts.made_at(leaf), leaf=leaf)
    return None


def _is_mentioned(facts: Facts, leaf: int) -> bool:
    """Whether the program reads `.grad` of it somewhere, even where the run did not get to."""
    script = facts.trace.script
    return script is not None and bool(set(facts.trace.tensors[leaf].names) & reads_of_grad(script))
