"""Find why a tensor does not require grad: the nearest cut among its ancestors, or leaves that do not require grad."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from undertow.why.facts.facts import Facts
from undertow.why.facts.paths import may_be_meant, weight
from undertow.why.followed_values import only_looked_at
from undertow.why.grad_reads import reads_of_grad
from undertow.why.places import Place
from undertow.why.trace import OpRecord


@dataclass(slots=True)
class Origin:
    """Why a tensor does not require grad.

    `code`: the code of the finding; `op`: the op that left the graph; `leaf`: the leaf that does not require grad.
    """

    code: str
    place: Place | None
    op: OpRecord | None = None
    leaf: int | None = None
    frozen: bool = False
    others: tuple[int, ...] = ()  # further leaves that never required grad


def code_of_cut(op: OpRecord) -> str:
    """Return the code of the finding for an op that left the graph."""
    if op.kind in ("cut", "leaves", "enters") or (op.kind == "grad" and not op.grad_mode):
        return "detached"
    if not op.grad_mode:
        return "no-grad-mode"
    return "not-differentiable"


def place_of_cut(op: OpRecord) -> Place | None:
    """Return the line of a cut; for gradient mode, the line that switched it off."""
    if code_of_cut(op) == "no-grad-mode" and op.off is not None:
        return op.off
    return op.place


def origin(facts: Facts, tensor: int, time: int) -> Origin | None:
    """Return why a tensor did not require grad at a time, by walking back through its ancestors."""
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
        if any(op.inputs_require_grad) and not _gave(op, current):
            cuts.append(op)
            continue
        left = [
            found
            for number in op.scalars
            if (found := facts.passed_to_python(number, op)) is not None and any(found.inputs_require_grad)
        ]
        if left:
            cuts.append(left[0])
            continue
        if facts.holders(current):
            leaves.append(current)  # the optimizer holds this tensor, so its ancestors do not matter
            continue
        for number in (*op.inputs, *op.scalars):
            if number not in seen:
                seen.add(number)
                queue.append((number, op.time))
    frozen = [leaf for leaf in leaves if facts.holders(leaf) and (flag := facts.flag(leaf, time)) and not flag.value]
    if frozen and all(map(may_be_meant, cuts)):
        return _leaf_origin(facts, frozen, time)  # stepping a frozen tensor cannot be intended
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
    return any(gave for output, gave in zip(op.outputs, op.outputs_require_grad) if output == tensor)


def _escaped(facts: Facts, leaves: list[int], time: int) -> OpRecord | None:
    """Return the op that passed values to Python, if the root was made from Python numbers alone."""
    trace = facts.trace
    entered = [trace.ops[maker] for leaf in leaves if (maker := trace.tensors[leaf].maker) is not None]
    entered = [op for op in entered if op.kind == "enters"]
    if not entered or any(trace.tensors[leaf].parameter for leaf in leaves):
        return None
    latest = max(op.time for op in entered)
    for op in reversed(trace.ops):
        if op.time < latest and op.kind == "leaves" and op.name not in ("__bool__", "__repr__"):
            cut = op if any(op.inputs_require_grad) else _cut_before(facts, op)
            if cut is not None and not only_looked_at(op.place, facts.ran):
                return cut
    return None


def _cut_before(facts: Facts, left: OpRecord) -> OpRecord | None:
    """Return the detach in `x.detach().numpy()`, if x had a graph."""
    made = [facts.maker(number, left.time) for number in left.inputs]
    return next((op for op in made if op is not None and op.kind == "cut" and any(op.inputs_require_grad)), None)


def _leaf_origin(facts: Facts, leaves: list[int], time: int) -> Origin | None:
    """Return the leaf that should have required grad.

    Leaves that an optimizer holds come first; among them a frozen one, then a parameter or one whose gradient is used,
    then one whose `.grad` the script mentions, then any.
    """
    trace = facts.trace
    leaves = [leaf for leaf in leaves if facts.holders(leaf)] or leaves
    for leaf in leaves:
        flag = facts.flag(leaf, time)
        if flag is not None and not flag.value:
            plain = [other for other in leaves if not trace.tensors[other].parameter and facts.flag(other) is None]
            return Origin("no-requires-grad", flag.place, leaf=leaf, frozen=True, others=tuple(plain))
    wanted = [leaf for leaf in leaves if trace.tensors[leaf].parameter or facts.grads.get(leaf)]
    mentioned = [leaf for leaf in leaves if _is_mentioned(facts, leaf)]
    for leaf in (*wanted, *mentioned, *leaves):
        return Origin("no-requires-grad", facts.made_at(leaf), leaf=leaf)
    return None


def _is_mentioned(facts: Facts, leaf: int) -> bool:
    """Whether the script reads `.grad` of a leaf anywhere, even in lines that did not run."""
    script = facts.trace.script
    return script is not None and bool(set(facts.trace.tensors[leaf].names) & reads_of_grad(script))
