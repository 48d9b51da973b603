"""zero-by-math: a correct gradient of all zeros, because an operation has zero slope there."""

from __future__ import annotations

from collections.abc import Iterator

from undertow.why.causes.base import Cause, consumer_fact
from undertow.why.facts.facts import Facts
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Finding, fact
from undertow.why.trace import BackwardRecord, NodeRecord, OpRecord

# Nodes whose gradient is a product with the other operand: zeros come from that operand, not from a slope.
_PRODUCTS = ("Mul", "Mm", "Addmm", "Bmm", "Baddbmm", "Dot", "Mv", "Convolution", "Linear", "Einsum", "Matmul", "Div")
_HOOKS = "BackwardHookFunction"  # where a module's backward hook replaces gradients: zeros are intended
_BEGIN_AT_ZERO = ("lstm", "gru", "rnn")  # their initial state is zero on purpose
_BENT = frozenset("relu leaky_relu relu6 hardtanh hardsigmoid abs clamp threshold prelu rrelu max_pool2d".split())
_LOOKS = 50  # the number of backward passes that are examined


class ZeroByMath(Cause):
    """A dead relu, a clamp past its limit, a saturated sigmoid, round, sign, a satisfied hinge."""

    code = "zero-by-math"
    meaning = "a gradient of exact zeros in every backward, because of an operation's slope"
    needs = "the gradients that go into and come out of every node"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        if miss.kind != "zero":
            return None
        backwards = [record for record in facts.reaching(miss.tensor) if miss.tensor in record.written]
        found: dict[tuple[str, int] | None, list[OpRecord]] = {}
        for record in backwards[:_LOOKS]:
            for op in _flat(facts, record, miss.tensor, len(backwards)):
                found.setdefault(None if op.place is None else op.place.key, []).append(op)
        if not found:
            return None
        return self._finding(facts, miss, max(found.values(), key=len)[0])  # the op with zero slope most often

    def _finding(self, facts: Facts, miss: Miss, op: OpRecord) -> Finding:
        name = facts.name(miss.tensor)
        bent = _bent(facts, op) if op.kind == "grad" else None
        if bent is not None:
            said = f"{bent.name} is piecewise linear, so the derivative from autograd.grad() is piecewise constant"
            return Finding(
                self.code,
                bent.place,
                name,
                f"{said}, and the gradient of {name}, which needs second derivatives, is exactly zero.",
                [
                    fact(said, bent.place),
                    fact("the derivative is differentiated again", op.place),
                    consumer_fact(facts, miss),
                ],
                "an activation with a second derivative: tanh, silu, softplus, sin",
                [op.place],
                miss.tensor,
            )
        product = any(_is_product(facts.trace.nodes[number]) for number in op.nodes)
        how = "multiplies by zeros only" if product else "has slope zero for every value that it got"
        return Finding(
            self.code,
            op.place,
            name,
            f"{op.name} {how}, so the gradient of {name} is exactly zero.",
            [fact(f"{op.name} gets a non-zero gradient and passes on zeros", op.place), consumer_fact(facts, miss)],
            "look at the other factor: a mask, a scale or a weight that is zero everywhere" if product else
            "keep the values where the slope is not zero: smaller inputs or another initialisation, leaky_relu for relu, "
            "a straight-through estimator for round and sign",
            tensor=miss.tensor,
        )  # fmt: skip


def _flat(facts: Facts, record: BackwardRecord, tensor: int, backwards: int) -> Iterator[OpRecord]:
    """Return the ops between the root and a tensor that made a gradient zero."""
    targets = set(facts.nodes_of(tensor))
    for number in (*record.stops, *record.zeros):
        node = facts.trace.nodes[number]
        if node.op is None or node.name.startswith(_HOOKS) or not targets & facts.below([number]):
            continue
        op = facts.trace.ops[node.op]
        if not _is_product(node):
            if number in record.stops:
                yield op
            continue
        source = _zero_operand(facts, op)
        if source is None:
            continue
        made = _first_zero(facts, source, op.time)
        if made is not None:
            yield made
        elif backwards > 1 and not op.name.startswith(_BEGIN_AT_ZERO):
            yield op  # zero weights that stay zero; a single step from a zero initialization is not conclusive


def _bent(facts: Facts, op: OpRecord) -> OpRecord | None:
    """Return the last piecewise linear op before the root of an autograd.grad."""
    roots = [node for number in op.inputs[:1] for node in facts.nodes_of(number)]
    ops = {facts.trace.nodes[node].op for node in facts.below(roots)}
    found = [facts.trace.ops[number] for number in ops if number is not None]
    return max((one for one in found if one.name.rstrip("_") in _BENT), key=lambda one: one.time, default=None)


def _is_product(node: NodeRecord) -> bool:
    return node.name.startswith(_PRODUCTS)


def _zero_operand(facts: Facts, op: OpRecord) -> int | None:
    for number in op.inputs:
        if facts.trace.tensors[number].peak == 0 or _peak(facts, number, op.time) == 0:
            return number
    return None


def _peak(facts: Facts, tensor: int, time: int) -> float | None:
    """Return the largest absolute value of a tensor at a time."""
    maker = facts.maker(tensor, time)
    if maker is None:
        return facts.trace.tensors[tensor].peak
    return next((peak for made, peak in zip(maker.outputs, maker.peaks) if made == tensor), None)


def _first_zero(facts: Facts, tensor: int, time: int) -> OpRecord | None:
    """Return the op that produced all zeros from non-zero values; None if zeros were there from the start."""
    while True:
        op = facts.maker(tensor, time)
        if op is None or not op.inputs:
            return None
        peaks = [(number, _peak(facts, number, op.time)) for number in op.inputs if number != tensor]
        zeros = [number for number, peak in peaks if peak == 0]
        if not zeros:
            return op if any(op.outputs_require_grad) else None
        tensor, time = zeros[0], op.time
