"""nan-born: the first operation that made NaN or Inf from values that had none."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from undertow.why.causes.base import Cause, grad_of
from undertow.why.facts.carried import is_variable
from undertow.why.facts.facts import Facts
from undertow.why.finding import Fact, Finding, fact, note
from undertow.why.trace import BAD, INFINITE_ON_PURPOSE, BackwardRecord, OpRecord

_SOFTMAXES = frozenset("softmax log_softmax scaled_dot_product_attention multi_head_attention_forward".split())


class NanBorn(Cause):
    """NaN or Inf in a loss or a gradient, traced back to its origin."""

    code = "nan-born"
    meaning = "the first operation whose result or gradient has NaN or Inf although its inputs had none"
    needs = "the size of every result and of every gradient between nodes"

    def run(self, facts: Facts) -> Iterable[Finding]:
        for record in facts.trace.backwards:
            found = self._forward(facts, record) or self._backward(facts, record) or self._in_hook(facts, record)
            if found is not None:
                return [found]  # what comes after is a consequence
        return self._looked_at(facts) or self._later(facts)

    def _later(self, facts: Facts) -> list[Finding]:
        """Note a gradient that sampling saw become NaN or Inf, after the steps whose operations were recorded."""
        later = facts.trace.later
        if later is None or later.bad is None:
            return []
        step, tensor, place = later.bad
        name = "a parameter" if tensor is None else facts.name(tensor)
        return [
            note(
                self.code, place, name,
                f"{grad_of(name)} has NaN or Inf at step {step}; of the steps after {later.whole} only gradients were "
                "looked at, so its origin is not known.",
                [fact(f"step {step} uses the gradient", place)],
                f"watch more steps: --sample {step}, or begin from a checkpoint shortly before it",
                tensor=tensor,
            )
        ]  # fmt: skip

    def _forward(self, facts: Facts, record: BackwardRecord) -> Finding | None:
        """Explain a root that is NaN or Inf."""
        for root, peak in zip(record.roots, record.root_peaks):
            if peak is not None and not isfinite(peak):
                op = _origin_of_nan(facts, root, record.time)
                if op is not None:
                    seen = fact(f"{facts.name(root)} is differentiated and is {peak}", record.place)
                    return self._finding(facts, op, root, "its result", [seen])
        return None

    def _backward(self, facts: Facts, record: BackwardRecord) -> Finding | None:
        """Explain a gradient that is NaN or Inf although the root is finite."""
        spoilt = [tensor for tensor, peak in record.written.items() if peak is not None and not isfinite(peak)]
        if not spoilt:
            return None
        for number in record.births:
            node = facts.trace.nodes[number]
            if node.op is not None:
                seen = [
                    fact(f"in this backward {node.name} turns a finite gradient into NaN or Inf", record.place),
                    fact(f"{grad_of(facts.name(spoilt[0]))} has NaN or Inf"),
                ]
                return self._finding(facts, facts.trace.ops[node.op], spoilt[0], "its gradient", seen)
        return None

    def _in_hook(self, facts: Facts, record: BackwardRecord) -> Finding | None:
        spoilt = [tensor for tensor, peak in record.written.items() if peak is not None and not isfinite(peak)]
        if not spoilt:
            return None
        for op in facts.trace.ops:
            if op.born and record.time < op.time < record.end and op.firing is not None:
                return self._finding(facts, op, spoilt[0], "its result", [fact("this runs inside a hook", op.place)])
        return None

    def _looked_at(self, facts: Facts) -> list[Finding]:
        """Find a NaN that is printed or logged but never differentiated."""
        for op in facts.trace.ops:
            if op.kind == "leaves" and op.inputs and any(op.inputs_require_grad):
                known = facts.trace.tensors[op.inputs[0]]
                if known.state == BAD:
                    born = _origin_of_nan(facts, known.id, op.time)
                    if born is not None:
                        seen = [fact(f"{facts.name(known.id)} is read here", op.place)]
                        return [self._finding(facts, born, known.id, "its result", seen)]
        return []

    def _finding(self, facts: Facts, op: OpRecord, subject: int, what: str, seen: list[Fact]) -> Finding:
        sizes = [
            f"{facts.name(number)} (largest {peak:.3g})"
            for number in op.inputs
            if (peak := facts.trace.tensors[number].peak) is not None and isfinite(peak)
        ]
        went_in = f"; what went in is finite: {', '.join(sizes[:3])}" if sizes else ""
        if op.name in _SOFTMAXES and any(_masks(facts, number) for number in op.inputs):
            return Finding(
                self.code,
                op.place,
                facts.name(subject),
                f"A row that {op.shown} gets is masked completely: all of it is -inf, and the softmax of that is NaN.",
                [fact(f"{op.shown} makes the first NaN of a fully masked row", op.place), *seen],
                "leave one entry of each row unmasked, or mask with torch.finfo(scores.dtype).min and drop these rows",
                tensor=subject,
            )
        return Finding(
            self.code,
            op.place,
            facts.name(subject),
            f"{op.shown} is the first operation that makes NaN or Inf: {what} has it{went_in}.",
            [fact(f"{op.shown} makes the first NaN or Inf", op.place), *seen],
            _cure(facts, op),
            tensor=subject,
        )


def _cure(facts: Facts, op: OpRecord) -> str:
    """Return how to keep the inputs of an op where it and its slope are finite, in the program's names."""
    names = [facts.name(number) for number in op.inputs]
    x, y = (name if is_variable(name) else other for name, other in zip([*names, "", ""], "xy"))
    kind = op.name.strip("_")
    if kind in ("sqrt", "rsqrt"):
        return f"torch.{kind}({x} + eps)  # its slope at 0 is infinite"
    if kind in ("log", "log2", "log10"):
        return (
            f"torch.{kind}({x}.clamp(min=eps)), or log_softmax for softmax then log; torch.where on {x}, not the result"
        )
    if kind in ("div", "truediv", "itruediv"):
        return f"{x} / ({y} + eps), or torch.where on {y}, not on the result"
    return (
        "keep its input inside its domain: log(x.clamp(min=eps)), x / (y + eps), sqrt(x + eps), "
        "torch.where on the input, not on the result"
    )


def _masks(facts: Facts, tensor: int) -> bool:
    """Whether a tensor has -inf that the program put there, or is a mask."""
    record = facts.trace.tensors[tensor]
    return record.state == INFINITE_ON_PURPOSE or record.dtype.endswith("bool")


def _origin_of_nan(facts: Facts, tensor: int, time: int) -> OpRecord | None:
    """Return the earliest op among a tensor's ancestors that produced NaN or Inf."""
    found: list[OpRecord] = []
    seen: set[tuple[int, int]] = set()
    stack = [(tensor, time)]
    while stack:
        current, before = stack.pop()
        op = facts.maker(current, before)
        if op is None or (current, op.id) in seen:
            continue
        seen.add((current, op.id))
        if op.born:
            found.append(op)
        stack.extend((number, op.time) for number in (*op.inputs, *op.scalars))
    return min(found, key=lambda op: op.time, default=None)
